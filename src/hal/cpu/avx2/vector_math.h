// Pieces that several AVX2 kernel files share, all with internal linkage (hal/cpu/panel_layout.h).
#pragma once

#include <immintrin.h>

#include "hal/cpu/exp_poly.h"
#include "hal/kernel_set.h"

namespace tenon::avx2 {

inline constexpr int64_t kLanes = 8;

// ExpScalar of each lane, none of which is above kExpHigh. A comparison with NaN is false and max
// gives its second operand then, which keeps NaN.
static inline __m256 ExpBelowHigh(__m256 x) {
  const __m256 one = _mm256_set1_ps(1.0f);
  const __m256 round = _mm256_set1_ps(kExpRound);
  const __m256 low = _mm256_set1_ps(kExpLow);
  const __m256 clamped = _mm256_max_ps(low, x);
  const __m256 t = _mm256_fmadd_ps(clamped, _mm256_set1_ps(kLog2E), round);
  const __m256 n = _mm256_sub_ps(t, round);
  __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-kLn2High), clamped);
  r = _mm256_fmadd_ps(n, _mm256_set1_ps(-kLn2Low), r);
  __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(kExpC4), r, _mm256_set1_ps(kExpC3));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kExpC2));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kExpC1));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kExpC0));
  const __m256 y = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), one);
  const __m256i power =
      _mm256_add_epi32(_mm256_slli_epi32(_mm256_castps_si256(t), 23), _mm256_castps_si256(one));
  const __m256 result = _mm256_mul_ps(y, _mm256_castsi256_ps(power));
  return _mm256_andnot_ps(_mm256_cmp_ps(x, low, _CMP_LT_OQ), result);
}

// ExpScalar of each lane.
static inline __m256 Exp(__m256 x) {
  const __m256 high = _mm256_set1_ps(kExpHigh);
  const __m256 finite = ExpBelowHigh(_mm256_min_ps(high, x));
  return _mm256_blendv_ps(finite, _mm256_set1_ps(__builtin_inff()),
                          _mm256_cmp_ps(x, high, _CMP_GT_OQ));
}

// Sum of eight lanes: the upper half added to the lower one, three times.
static inline float HalvingSum(__m256 v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline float MaxLane(__m256 v) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// All ones in the lanes i with first <= i < last.
static inline __m256i LaneMask(int64_t first, int64_t last) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i from = _mm256_set1_epi32(static_cast<int>(first) - 1);
  const __m256i to = _mm256_set1_epi32(static_cast<int>(last));
  return _mm256_and_si256(_mm256_cmpgt_epi32(lanes, from), _mm256_cmpgt_epi32(to, lanes));
}

// Ends an expression here. Without it the compiler rebalances chains of integer additions into
// trees, which hold so many values at once that a tile's accumulators are spilled.
static inline void KeepInRegister(__m256i& v) {
  asm("" : "+x"(v));
}

static inline void KeepInRegister(__m256& v) {
  asm("" : "+x"(v));
}

static inline __m256 LoadF16(const std::byte* at) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}

static inline __m256 LoadBF16(const std::byte* at) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

static inline __m256 LoadF32(const std::byte* at) {
  return _mm256_loadu_ps(reinterpret_cast<const float*>(at));
}

}  // namespace tenon::avx2
