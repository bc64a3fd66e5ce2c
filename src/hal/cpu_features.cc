#include "hal/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace tenon {
namespace {

// Intel SDM volume 2A, CPUID: bits of leaf 1 ECX, leaf 7 EBX, ECX and EDX.
constexpr uint32_t kLeaf1Ecx_Fma = 1u << 12;
constexpr uint32_t kLeaf1Ecx_OsXsave = 1u << 27;
constexpr uint32_t kLeaf1Ecx_Avx = 1u << 28;
constexpr uint32_t kLeaf1Ecx_F16c = 1u << 29;
constexpr uint32_t kLeaf7Ebx_Avx2 = 1u << 5;
constexpr uint32_t kLeaf7Ebx_Avx512F = 1u << 16;
constexpr uint32_t kLeaf7Ebx_Avx512Dq = 1u << 17;
constexpr uint32_t kLeaf7Ebx_Avx512Bw = 1u << 30;
constexpr uint32_t kLeaf7Ebx_Avx512Vl = 1u << 31;
constexpr uint32_t kLeaf7Ecx_Avx512Vnni = 1u << 11;
constexpr uint32_t kLeaf7Edx_AmxTile = 1u << 24;
constexpr uint32_t kLeaf7Edx_AmxInt8 = 1u << 25;

// Intel SDM volume 1, 13.1: state components in XCR0.
constexpr uint64_t kXcr0_Ymm = 0x6;        // SSE, AVX
constexpr uint64_t kXcr0_Zmm = 0xe6;       // and opmask, upper halves of zmm0-15, zmm16-31
constexpr uint64_t kXcr0_Tiles = 0x60000;  // XTILECFG, XTILEDATA

bool HasAll(uint64_t word, uint64_t bits) {
  return (word & bits) == bits;
}

uint64_t UsableXcr0(const X86Report& report) {
  return HasAll(report.leaf1.ecx, kLeaf1Ecx_OsXsave) ? report.xcr0 : 0;
}

bool OffersAvx2(const X86Report& report) {
  return HasAll(UsableXcr0(report), kXcr0_Ymm) &&
         HasAll(report.leaf1.ecx, kLeaf1Ecx_Avx | kLeaf1Ecx_Fma | kLeaf1Ecx_F16c) &&
         HasAll(report.leaf7.ebx, kLeaf7Ebx_Avx2);
}

bool OffersAvx512Vnni(const X86Report& report) {
  return OffersAvx2(report) && HasAll(UsableXcr0(report), kXcr0_Zmm) &&
         HasAll(report.leaf7.ebx,
                kLeaf7Ebx_Avx512F | kLeaf7Ebx_Avx512Dq | kLeaf7Ebx_Avx512Bw | kLeaf7Ebx_Avx512Vl) &&
         HasAll(report.leaf7.ecx, kLeaf7Ecx_Avx512Vnni);
}

#if defined(__x86_64__)

CpuidWords ReadLeaf(uint32_t leaf) {
  CpuidWords words;
  // 0 and no write when the leaf is above the highest one that the CPU knows.
  __get_cpuid_count(leaf, 0, &words.eax, &words.ebx, &words.ecx, &words.edx);
  return words;
}

uint64_t ReadXcr0() {
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

// Linux, Documentation/arch/x86/xstate.rst: tile data is granted per process, on request.
AmxPermission RequestAmx() {
#if defined(__linux__)
  constexpr long kArchReqXcompPerm = 0x1023;
  constexpr long kXfeatureXtiledata = 18;
  const long rc = syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureXtiledata);
  return rc == 0 ? AmxPermission::kGranted : AmxPermission::kDenied;
#else
  return AmxPermission::kDenied;
#endif
}

X86Report ReadReport() {
  X86Report report;
  report.leaf1 = ReadLeaf(1);
  report.leaf7 = ReadLeaf(7);
  if (HasAll(report.leaf1.ecx, kLeaf1Ecx_OsXsave))
    report.xcr0 = ReadXcr0();
  if (OffersAmx(report))
    report.amx_permission = RequestAmx();
  return report;
}

#endif

}  // namespace

bool OffersAmx(const X86Report& report) {
  return OffersAvx512Vnni(report) && HasAll(UsableXcr0(report), kXcr0_Tiles) &&
         HasAll(report.leaf7.edx, kLeaf7Edx_AmxTile | kLeaf7Edx_AmxInt8);
}

CpuFeatures DecodeX86(const X86Report& report) {
  CpuFeatures features;
  features.avx2 = OffersAvx2(report);
  features.avx512vnni = OffersAvx512Vnni(report);
  features.amx_int8 = OffersAmx(report) && report.amx_permission == AmxPermission::kGranted;
  return features;
}

CpuFeatures DecodeArm(uint64_t hwcap) {
  // Linux, arch/arm64/include/uapi/asm/hwcap.h.
  constexpr uint64_t kHwcapAsimd = 1u << 1;
  constexpr uint64_t kHwcapFpHp = 1u << 9;
  constexpr uint64_t kHwcapAsimdHp = 1u << 10;
  constexpr uint64_t kHwcapAsimdDp = 1u << 20;
  CpuFeatures features;
  features.neon_dotprod = HasAll(hwcap, kHwcapAsimd | kHwcapFpHp | kHwcapAsimdHp | kHwcapAsimdDp);
  return features;
}

CpuFeatures DetectCpuFeatures() {
#if defined(__x86_64__)
  return DecodeX86(ReadReport());
#elif defined(__aarch64__) && defined(__linux__)
  return DecodeArm(getauxval(AT_HWCAP));
#else
  return {};
#endif
}

}  // namespace tenon
