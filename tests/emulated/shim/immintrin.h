// Stands in for the compiler's <immintrin.h> when the AVX-512 and AMX kernels are compiled for a
// machine without them. SIMDe gives most intrinsics; what it lacks, or does not round as the
// hardware does, is scalar code here, written from the Intel SDM's pseudo code.
#pragma once

#define SIMDE_ENABLE_NATIVE_ALIASES
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>
#pragma GCC diagnostic pop

#include "emulated_tiles.h"

using __mmask16 = simde__mmask16;

namespace tenon_emulated {

template <class To, class From>
inline To CopyAs(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}

struct Floats {
  float lane[16];
};
struct Ints {
  int32_t lane[16];
};
struct Words {
  uint16_t lane[16];
};

// SIMDe multiplies and adds with two roundings.
inline __m512 FusedMultiplyAdd(__m512 a, __m512 b, __m512 c) {
  const auto x = CopyAs<Floats>(a);
  const auto y = CopyAs<Floats>(b);
  auto z = CopyAs<Floats>(c);
  for (int i = 0; i < 16; ++i)
    z.lane[i] = __builtin_fmaf(x.lane[i], y.lane[i], z.lane[i]);
  return CopyAs<__m512>(z);
}

struct EightFloats {
  float lane[8];
};

inline __m256 FusedMultiplyAdd(__m256 a, __m256 b, __m256 c) {
  const auto x = CopyAs<EightFloats>(a);
  const auto y = CopyAs<EightFloats>(b);
  auto z = CopyAs<EightFloats>(c);
  for (int i = 0; i < 8; ++i)
    z.lane[i] = __builtin_fmaf(x.lane[i], y.lane[i], z.lane[i]);
  return CopyAs<__m256>(z);
}

// IEEE half to float, by arithmetic: exact for every finite value.
inline float WidenHalf(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const auto mantissa = static_cast<float>(bits & 1023);
  float magnitude;
  if (exponent == 31)
    magnitude = mantissa == 0 ? __builtin_inff() : __builtin_nanf("");
  else if (exponent == 0)
    magnitude = mantissa * 0x1p-24f;
  else
    magnitude = __builtin_ldexpf(1024.0f + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

inline __m512 WidenHalfs(__m256i halfs) {
  const auto words = CopyAs<Words>(halfs);
  Floats result;
  for (int i = 0; i < 16; ++i)
    result.lane[i] = WidenHalf(words.lane[i]);
  return CopyAs<__m512>(result);
}

inline __m512i WidenWords(__m256i values) {
  const auto words = CopyAs<Words>(values);
  Ints result;
  for (int i = 0; i < 16; ++i)
    result.lane[i] = words.lane[i];
  return CopyAs<__m512i>(result);
}

// Masked loads and stores touch the chosen lanes only, as the hardware's do.
inline __m512 MaskedLoad(__mmask16 mask, const void* from) {
  Floats result = {};
  for (unsigned i = 0; i < 16; ++i) {
    if ((mask >> i & 1) != 0)
      __builtin_memcpy(&result.lane[i], static_cast<const char*>(from) + i * 4, 4);
  }
  return CopyAs<__m512>(result);
}

inline void MaskedStore(void* to, __mmask16 mask, __m512 values) {
  const auto floats = CopyAs<Floats>(values);
  for (unsigned i = 0; i < 16; ++i) {
    if ((mask >> i & 1) != 0)
      __builtin_memcpy(static_cast<char*>(to) + i * 4, &floats.lane[i], 4);
  }
}

// Keeps the low byte of each lane.
inline __m128i NarrowToBytes(__m512i values) {
  const auto ints = CopyAs<Ints>(values);
  struct {
    int8_t lane[16];
  } result;
  for (int i = 0; i < 16; ++i)
    result.lane[i] = static_cast<int8_t>(ints.lane[i] & 255);
  return CopyAs<__m128i>(result);
}

// Round to nearest even; only for values that fit.
inline __m512i RoundToInts(__m512 values) {
  const auto floats = CopyAs<Floats>(values);
  Ints result;
  for (int i = 0; i < 16; ++i)
    result.lane[i] = static_cast<int32_t>(__builtin_nearbyintf(floats.lane[i]));
  return CopyAs<__m512i>(result);
}

inline __m512 IntsToFloats(__m512i values) {
  const auto ints = CopyAs<Ints>(values);
  Floats result;
  for (int i = 0; i < 16; ++i)
    result.lane[i] = static_cast<float>(ints.lane[i]);
  return CopyAs<__m512>(result);
}

enum class Duplicate { kEven, kOdd };

inline __m512 DuplicateLanes(__m512 values, Duplicate which) {
  const auto floats = CopyAs<Floats>(values);
  Floats result;
  for (int i = 0; i < 16; ++i)
    result.lane[i] = floats.lane[which == Duplicate::kEven ? i & ~1 : i | 1];
  return CopyAs<__m512>(result);
}

struct HalfFloats {
  float lane[8];
};

template <int kHalf>
inline __m256 ExtractHalf(__m512 values) {
  const auto floats = CopyAs<Floats>(values);
  HalfFloats result;
  for (int i = 0; i < 8; ++i)
    result.lane[i] = floats.lane[kHalf * 8 + i];
  return CopyAs<__m256>(result);
}

}  // namespace tenon_emulated

#undef _mm512_fmadd_ps
#undef _mm256_fmadd_ps
#define _mm256_fmadd_ps(a, b, c) tenon_emulated::FusedMultiplyAdd(a, b, c)
#define _mm512_fmadd_ps(a, b, c) tenon_emulated::FusedMultiplyAdd(a, b, c)
#define _mm512_cvtph_ps(a) tenon_emulated::WidenHalfs(a)
#define _mm512_cvtepu16_epi32(a) tenon_emulated::WidenWords(a)
#define _mm512_maskz_loadu_ps(k, p) tenon_emulated::MaskedLoad(k, p)
#define _mm512_mask_storeu_ps(p, k, a) tenon_emulated::MaskedStore(p, k, a)
#define _mm512_cvtepi32_epi8(a) tenon_emulated::NarrowToBytes(a)
#define _mm512_cvtps_epi32(a) tenon_emulated::RoundToInts(a)
#define _mm512_cvtepi32_ps(a) tenon_emulated::IntsToFloats(a)
#define _mm512_moveldup_ps(a) tenon_emulated::DuplicateLanes(a, tenon_emulated::Duplicate::kEven)
#define _mm512_movehdup_ps(a) tenon_emulated::DuplicateLanes(a, tenon_emulated::Duplicate::kOdd)
#define _mm512_extractf32x8_ps(a, half) tenon_emulated::ExtractHalf<half>(a)
