// Pieces of vector code that the AVX-512 kernel files share. Everything has internal linkage, so
// that no copy of it can end up in code for other CPUs.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "hal/cpu/exp_poly.h"
#include "hal/kernel_set.h"

namespace tenon::avx512vnni {

// Floats in a vector.
static constexpr int64_t kLanes = 16;

// The mask of the first `count` lanes, 0 <= count <= 16.
static inline __mmask16 FirstLanes(int64_t count) {
  return static_cast<__mmask16>((1u << count) - 1u);
}

static inline float LoadFloat(const std::byte* at) {
  float value;
  __builtin_memcpy(&value, at, sizeof(value));
  return value;
}

static inline __m512 WidenHalf(__m256i halfs) {
  return _mm512_cvtph_ps(halfs);
}

static inline __m512 WidenBrain(__m256i bits) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

// 16 f16 at `at` as floats.
static inline __m512 LoadHalfs(const std::byte* at) {
  return WidenHalf(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}

static inline __m512 LoadBrains(const std::byte* at) {
  return WidenBrain(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}

// The upper half added to the lower one, four times: the order of the ref set's sums.
static inline float HalvingSum(__m512 lanes) {
  const __m256 eight =
      _mm256_add_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// exp_poly.h for 16 lanes.
static inline __m512 Exp(__m512 x) {
  const __m512 low = _mm512_set1_ps(kExpLow);
  const __m512 high = _mm512_set1_ps(kExpHigh);
  // Operands in this order keep a NaN of x.
  const __m512 clamped = _mm512_min_ps(high, _mm512_max_ps(low, x));
  const __m512 round = _mm512_set1_ps(kExpRound);
  const __m512 t = _mm512_fmadd_ps(clamped, _mm512_set1_ps(kLog2E), round);
  const __m512 n = _mm512_sub_ps(t, round);
  __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-kLn2High), clamped);
  r = _mm512_fmadd_ps(n, _mm512_set1_ps(-kLn2Low), r);
  __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(kExpC4), r, _mm512_set1_ps(kExpC3));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(kExpC2));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(kExpC1));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(kExpC0));
  const __m512 one = _mm512_set1_ps(1.0f);
  const __m512 y = _mm512_add_ps(_mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r), one);
  const __m512i power =
      _mm512_add_epi32(_mm512_slli_epi32(_mm512_castps_si512(t), 23), _mm512_castps_si512(one));
  __m512 result = _mm512_mul_ps(y, _mm512_castsi512_ps(power));
  const __mmask16 above = _mm512_cmp_ps_mask(x, high, _CMP_GT_OQ);
  result = _mm512_mask_mov_ps(result, above, _mm512_set1_ps(__builtin_inff()));
  const __mmask16 below = _mm512_cmp_ps_mask(x, low, _CMP_LT_OQ);
  return _mm512_mask_mov_ps(result, below, _mm512_setzero_ps());
}

}  // namespace tenon::avx512vnni
