// CpuFeatures: the instruction sets that this CPU has and this operating system lets us use.
//
// Own detection, since a set bit in CPUID is not enough: the system must save the registers (XCR0),
// and Linux hands out AMX tiles only after the process asked for them. Decoding is a pure function
// of the words that the machine reports, so tests can feed it recorded machines.
// Threading: free functions; DetectCpuFeatures is safe from any thread.
#pragma once

#include <cstdint>

namespace tenon {

struct CpuFeatures {
  bool avx2 = false;          // with FMA3 and F16C, and the system saves ymm
  bool avx512vnni = false;    // F, BW, DQ, VL and VNNI, and the system saves zmm and masks
  bool amx_int8 = false;      // TILE and INT8, the system saves tiles and has granted them to us
  bool neon_dotprod = false;  // ASIMD with SDOT/UDOT and half-precision arithmetic (Armv8.2)
};

struct CpuidWords {
  uint32_t eax = 0;
  uint32_t ebx = 0;
  uint32_t ecx = 0;
  uint32_t edx = 0;
};

// Answers the system's permission request for a feature that CPUID already promises.
enum class AmxPermission { kDenied, kGranted };

// What an x86 machine reports: zero where a leaf or register does not exist.
struct X86Report {
  CpuidWords leaf1;
  CpuidWords leaf7;   // subleaf 0
  uint64_t xcr0 = 0;  // XGETBV(0); 0 without OSXSAVE
  AmxPermission amx_permission = AmxPermission::kDenied;
};

CpuFeatures DecodeX86(const X86Report& report);

// True when CPUID and XCR0 of `report` offer AMX, so that asking for permission makes sense.
bool OffersAmx(const X86Report& report);

// `hwcap`: getauxval(AT_HWCAP) of a 64-bit Arm Linux.
CpuFeatures DecodeArm(uint64_t hwcap);

// The running machine. On x86 with AMX the first call asks the system for the process's permission
// to use tiles; threads started later inherit it.
CpuFeatures DetectCpuFeatures();

}  // namespace tenon
