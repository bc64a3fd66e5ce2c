// Recorded machines: the words that real CPUs and emulators report, and what may be used on them.
#include "hal/cpu_features.h"

#include <gtest/gtest.h>

#include <string>

namespace tenon {
namespace {

struct Machine {
  const char* name;
  X86Report report;
  bool avx2;
  bool avx512vnni;
  bool amx_int8;
};

constexpr uint32_t kSapphireRapidsLeaf7Ebx = 0xf3bfb7ef;
constexpr uint32_t kSapphireRapidsLeaf7Ecx = 0xfb417ffe;
constexpr uint32_t kSapphireRapidsLeaf7Edx = 0xffdd4432;
constexpr auto kGranted = AmxPermission::kGranted;
constexpr auto kDenied = AmxPermission::kDenied;

// Zen 3 and the QEMU machines were read from the machine; the others are put together from the
// feature lists of the Intel SDM, with the other bits of such CPUs around them.
const Machine kMachines[] = {
    {"no CPUID leaf 7 at all", {{}, {}, 0, kDenied}, false, false, false},
    {"Nehalem: SSE4.2, no XSAVE",
     {{0x000106a5, 0x00100800, 0x0098e3bd, 0xbfebfbff}, {}, 0, kDenied},
     false,
     false,
     false},
    {"QEMU 7.2 -cpu Nehalem",
     {{0x000106a3, 0x00000800, 0x80982201, 0x078bfbfd}, {}, 0, kDenied},
     false,
     false,
     false},
    {"Sandy Bridge: AVX without AVX2 and FMA",
     {{0x000206a7, 0x00100800, 0x1fbae3bf, 0xbfebfbff}, {}, 0x7, kDenied},
     false,
     false,
     false},
    {"Haswell",
     {{0x000306c3, 0x00100800, 0x7ffafbff, 0xbfebfbff}, {0, 0x000027ab, 0, 0}, 0x7, kDenied},
     true,
     false,
     false},
    {"Zen 3 under KVM",
     {{0x00a00f11, 0x00020800, 0xfffa3203, 0x178bfbff},
      {0, 0x219c07ab, 0x00400684, 0x00000010},
      0x7,
      kDenied},
     true,
     false,
     false},
    {"Skylake-SP: AVX-512 without VNNI",
     {{0x00050654, 0x00400800, 0x7ffefbff, 0xbfebfbff},
      {0, 0xd39ffffb, 0x00000008, 0xbc000400},
      0x2ff,
      kDenied},
     true,
     false,
     false},
    {"Cascade Lake",
     {{0x00050657, 0x00400800, 0x7ffefbff, 0xbfebfbff},
      {0, 0xd39ffffb, 0x00000808, 0xbc000400},
      0x2ff,
      kDenied},
     true,
     true,
     false},
    {"Cascade Lake, AVX-512 state not enabled by the system",
     {{0x00050657, 0x00400800, 0x7ffefbff, 0xbfebfbff},
      {0, 0xd39ffffb, 0x00000808, 0xbc000400},
      0x7,
      kDenied},
     true,
     false,
     false},
    {"Cascade Lake, mask registers enabled but not zmm16-31",
     {{0x00050657, 0x00400800, 0x7ffefbff, 0xbfebfbff},
      {0, 0xd39ffffb, 0x00000808, 0xbc000400},
      0x67,
      kDenied},
     true,
     false,
     false},
    {"Haswell, hypervisor that masks OSXSAVE",
     {{0x000306c3, 0x00100800, 0x77fafbff, 0xbfebfbff}, {0, 0x000027ab, 0, 0}, 0x7, kDenied},
     false,
     false,
     false},
    {"Haswell, ymm state not enabled",
     {{0x000306c3, 0x00100800, 0x7ffafbff, 0xbfebfbff}, {0, 0x000027ab, 0, 0}, 0x3, kDenied},
     false,
     false,
     false},
    {"Sapphire Rapids",
     {{0x000806f8, 0x00400800, 0x7ffefbff, 0xbfebfbff},
      {2, kSapphireRapidsLeaf7Ebx, kSapphireRapidsLeaf7Ecx, kSapphireRapidsLeaf7Edx},
      0x602e7,
      kGranted},
     true,
     true,
     true},
    {"Sapphire Rapids, tiles refused by the kernel",
     {{0x000806f8, 0x00400800, 0x7ffefbff, 0xbfebfbff},
      {2, kSapphireRapidsLeaf7Ebx, kSapphireRapidsLeaf7Ecx, kSapphireRapidsLeaf7Edx},
      0x602e7,
      kDenied},
     true,
     true,
     false},
    {"Sapphire Rapids, kernel without tile state",
     {{0x000806f8, 0x00400800, 0x7ffefbff, 0xbfebfbff},
      {2, kSapphireRapidsLeaf7Ebx, kSapphireRapidsLeaf7Ecx, kSapphireRapidsLeaf7Edx},
      0x2e7,
      kGranted},
     true,
     true,
     false},
};

TEST(CpuFeatures, DecodesRecordedMachines) {
  for (const Machine& machine : kMachines) {
    SCOPED_TRACE(machine.name);
    const CpuFeatures features = DecodeX86(machine.report);
    EXPECT_EQ(features.avx2, machine.avx2);
    EXPECT_EQ(features.avx512vnni, machine.avx512vnni);
    EXPECT_EQ(features.amx_int8, machine.amx_int8);
    EXPECT_FALSE(features.neon_dotprod);
  }
}

// Every bit that a set needs is needed: a machine like Sapphire Rapids without it loses the set.
TEST(CpuFeatures, EachBitIsRequired) {
  const X86Report full = {
      {0x000806f8, 0x00400800, 0x7ffefbff, 0xbfebfbff},
      {2, kSapphireRapidsLeaf7Ebx, kSapphireRapidsLeaf7Ecx, kSapphireRapidsLeaf7Edx},
      0x602e7,
      kGranted};
  for (int bit : {12, 27, 28, 29}) {
    X86Report report = full;
    report.leaf1.ecx &= ~(1u << bit);
    EXPECT_FALSE(DecodeX86(report).avx2) << "leaf 1 ECX bit " << bit;
    EXPECT_FALSE(DecodeX86(report).amx_int8) << "leaf 1 ECX bit " << bit;
  }
  for (int bit : {16, 17, 30, 31}) {
    X86Report report = full;
    report.leaf7.ebx &= ~(1u << bit);
    EXPECT_TRUE(DecodeX86(report).avx2) << "leaf 7 EBX bit " << bit;
    EXPECT_FALSE(DecodeX86(report).avx512vnni) << "leaf 7 EBX bit " << bit;
  }
  for (int bit : {24, 25}) {
    X86Report report = full;
    report.leaf7.edx &= ~(1u << bit);
    EXPECT_TRUE(DecodeX86(report).avx512vnni) << "leaf 7 EDX bit " << bit;
    EXPECT_FALSE(DecodeX86(report).amx_int8) << "leaf 7 EDX bit " << bit;
    EXPECT_FALSE(OffersAmx(report)) << "leaf 7 EDX bit " << bit;
  }
  for (int bit : {1, 2, 5, 6, 7}) {
    X86Report report = full;
    report.xcr0 &= ~(uint64_t{1} << bit);
    EXPECT_FALSE(DecodeX86(report).avx512vnni) << "XCR0 bit " << bit;
  }
}

TEST(CpuFeatures, DecodesArmHwcaps) {
  // Cortex-A72 (Armv8.0) as QEMU reports it, and Neoverse N1 (Armv8.2 with fp16 and dotprod).
  EXPECT_FALSE(DecodeArm(0x8ff).neon_dotprod);
  EXPECT_TRUE(DecodeArm(0x119fff).neon_dotprod);
  EXPECT_FALSE(DecodeArm(0x119fff & ~(uint64_t{1} << 20)).neon_dotprod);
  EXPECT_FALSE(DecodeArm(0x119fff & ~(uint64_t{1} << 10)).neon_dotprod);
}

TEST(CpuFeatures, DetectionIsStable) {
  const CpuFeatures first = DetectCpuFeatures();
  const CpuFeatures second = DetectCpuFeatures();
  EXPECT_EQ(first.avx2, second.avx2);
  EXPECT_EQ(first.avx512vnni, second.avx512vnni);
  EXPECT_EQ(first.amx_int8, second.amx_int8);
  EXPECT_TRUE(first.avx2 || !first.avx512vnni);
}

}  // namespace
}  // namespace tenon
