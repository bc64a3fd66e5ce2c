#include "hal/cpu/activation_steps.h"
#include "hal/cpu/avx512vnni/avx512vnni_kernels.h"
#include "hal/cpu/avx512vnni/vectors.h"

namespace tenon::avx512vnni {
namespace {

inline __m512 SiluVector(__m512 x) {
  const __m512 negated = _mm512_xor_ps(x, _mm512_set1_ps(-0.0f));
  return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), Exp(negated)));
}

inline __m512 GeluVector(__m512 x) {
  const __m512 slope =
      _mm512_fmadd_ps(_mm512_mul_ps(x, x), _mm512_set1_ps(kGeluCubic), _mm512_set1_ps(kGeluLinear));
  const __m512 exponential = Exp(_mm512_mul_ps(x, slope));
  return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), exponential));
}

// out[i] = fn(x[i]); the tail goes through masks.
template <class Fn>
inline void Map(const float* x, int64_t n, float* out, Fn fn) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    _mm512_storeu_ps(out + i, fn(_mm512_loadu_ps(x + i)));
  if (i < n) {
    const __mmask16 mask = FirstLanes(n - i);
    _mm512_mask_storeu_ps(out + i, mask, fn(_mm512_maskz_loadu_ps(mask, x + i)));
  }
}

// out[i] = fn(a[i], b[i]).
template <class Fn>
inline void Zip(const float* a, const float* b, int64_t n, float* out, Fn fn) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    _mm512_storeu_ps(out + i, fn(_mm512_loadu_ps(a + i), _mm512_loadu_ps(b + i)));
  if (i < n) {
    const __mmask16 mask = FirstLanes(n - i);
    const __m512 result =
        fn(_mm512_maskz_loadu_ps(mask, a + i), _mm512_maskz_loadu_ps(mask, b + i));
    _mm512_mask_storeu_ps(out + i, mask, result);
  }
}

// The largest of 16 unsigned lanes.
inline uint32_t MaxLane(__m512i lanes) {
  const __m256i eight =
      _mm256_max_epu32(_mm512_castsi512_si256(lanes), _mm512_extracti64x4_epi64(lanes, 1));
  __m128i four = _mm_max_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0xb1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(four));
}

inline int32_t SumLanes(__m512i lanes) {
  const __m256i eight =
      _mm256_add_epi32(_mm512_castsi512_si256(lanes), _mm512_extracti64x4_epi64(lanes, 1));
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1));
  return _mm_cvtsi128_si32(four);
}

// Nearest integers within -127..127; a NaN becomes -127 by the order of operands.
inline __m512i NearestLevels(__m512 ratio) {
  const __m512 low = _mm512_max_ps(ratio, _mm512_set1_ps(-127.0f));
  return _mm512_cvtps_epi32(_mm512_min_ps(low, _mm512_set1_ps(127.0f)));
}

// The bits of |x|, which order as the values do, NaN above all.
inline __m512i Magnitudes(__m512 x) {
  return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
}

// Rounds a group to levels; their sum.
inline int32_t RoundGroup(const float* x, float inverse_step, int8_t* q) {
  const __m512 ratio = _mm512_mul_ps(_mm512_loadu_ps(x), _mm512_set1_ps(inverse_step));
  const __m512i levels = NearestLevels(ratio);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(q), _mm512_cvtepi32_epi8(levels));
  return SumLanes(levels);
}

// Both groups' levels by the inverses of their steps, in both orders, and the sums.
inline void RoundBlock(const float* x, float first_inverse, float second_inverse,
                       const ActivationBlock& block) {
  RoundGroups(x, first_inverse, second_inverse, block, RoundGroup);
  const int8_t* q = block.groups->q;
  const auto load = [q](int64_t at) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(q + at));
  };
  const __m128i first = load(0);
  const __m128i second = load(kActivationGroup);
  auto* pairs = reinterpret_cast<__m128i*>(block.whole->pairs);
  _mm_storeu_si128(pairs, _mm_unpacklo_epi16(first, second));
  _mm_storeu_si128(pairs + 1, _mm_unpackhi_epi16(first, second));
}

inline void RoundWide(const float* x, float inverse, int16_t* q) {
  for (int64_t i = 0; i < kActivationBlockValues; i += kLanes) {
    const __m512 ratio = _mm512_mul_ps(_mm512_loadu_ps(x + i), _mm512_set1_ps(inverse));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(q + i),
                        _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(ratio)));
  }
}

}  // namespace

void QuantizeWideBlock(const float* x, std::byte* row, int64_t, int64_t index) {
  const __m512i largest =
      _mm512_max_epi32(Magnitudes(_mm512_loadu_ps(x)), Magnitudes(_mm512_loadu_ps(x + kLanes)));
  QuantizeWide(x, MaxLane(largest), WideBlockAt(row, index), RoundWide);
}

void QuantizeWideRow(const float* x, int64_t k, std::byte* out) {
  QuantizeBlocks(x, k, out, QuantizeWideBlock);
}

void QuantizeBlock(const float* x, std::byte* row, int64_t k, int64_t index) {
  const auto magnitude = [](const float* group) {
    return MaxLane(Magnitudes(_mm512_loadu_ps(group)));
  };
  QuantizeByGroups(x, BlockAt(row, k, index), magnitude, RoundBlock);
}

void QuantizeRow(const float* x, int64_t k, std::byte* out) {
  QuantizeBlocks(x, k, out, QuantizeBlock);
}

void QuantizeRowPerToken(const float* x, int64_t k, std::byte* out) {
  __m512i largest = Magnitudes(_mm512_set1_ps(kLeastTokenRange));
  for (int64_t i = 0; i < k; i += kLanes)
    largest = _mm512_max_epu32(largest, Magnitudes(_mm512_loadu_ps(x + i)));
  const auto range = __builtin_bit_cast(float, MaxLane(largest));
  RoundRow(x, k, range, out, RoundBlock);
}

void RmsNorm(const float* x, const float* weight, int64_t n, float eps, float* out) {
  __m512 squares = _mm512_setzero_ps();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const __m512 values = _mm512_loadu_ps(x + i);
    squares = _mm512_fmadd_ps(values, values, squares);
  }
  if (i < n) {
    const __m512 values = _mm512_maskz_loadu_ps(FirstLanes(n - i), x + i);
    squares = _mm512_fmadd_ps(values, values, squares);
  }
  const float mean = HalvingSum(squares) / static_cast<float>(n);
  const __m512 inverse = _mm512_set1_ps(1.0f / __builtin_sqrtf(mean + eps));
  Zip(x, weight, n, out, [inverse](__m512 values, __m512 weights) {
    return _mm512_mul_ps(_mm512_mul_ps(values, inverse), weights);
  });
}

void Add(const float* a, const float* b, int64_t n, float* out) {
  Zip(a, b, n, out, [](__m512 x, __m512 y) { return _mm512_add_ps(x, y); });
}

void Mul(const float* a, const float* b, int64_t n, float* out) {
  Zip(a, b, n, out, [](__m512 x, __m512 y) { return _mm512_mul_ps(x, y); });
}

void Scale(const float* x, float factor, int64_t n, float* out) {
  const __m512 factors = _mm512_set1_ps(factor);
  Map(x, n, out, [factors](__m512 values) { return _mm512_mul_ps(values, factors); });
}

void Silu(const float* x, int64_t n, float* out) {
  Map(x, n, out, SiluVector);
}

void Gelu(const float* x, int64_t n, float* out) {
  Map(x, n, out, GeluVector);
}

void SiluMul(const float* a, const float* b, int64_t n, float* out) {
  Zip(a, b, n, out, [](__m512 x, __m512 y) { return _mm512_mul_ps(SiluVector(x), y); });
}

void GeluMul(const float* a, const float* b, int64_t n, float* out) {
  Zip(a, b, n, out, [](__m512 x, __m512 y) { return _mm512_mul_ps(GeluVector(x), y); });
}

void RopeInterleaved(float* x, const float* cos, const float* sin, int64_t pairs) {
  constexpr int64_t kPairs = kLanes / 2;
  // Picks c0 s0 c1 s1 ... and s0 c0 s1 c1 ... from a vector of cosines and one of sines.
  const __m512i cos_sin = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i sin_cos = _mm512_xor_si512(cos_sin, _mm512_set1_epi32(16));
  constexpr __mmask16 kEvenLanes = 0x5555;
  for (int64_t p = 0; p < pairs; p += kPairs) {
    const int64_t count = pairs - p < kPairs ? pairs - p : kPairs;
    const __mmask16 pair_mask = FirstLanes(count);
    const __mmask16 mask = FirstLanes(2 * count);
    const __m512 c = _mm512_maskz_loadu_ps(pair_mask, cos + p);
    const __m512 s = _mm512_maskz_loadu_ps(pair_mask, sin + p);
    const __m512 values = _mm512_maskz_loadu_ps(mask, x + 2 * p);
    const __m512 first =
        _mm512_mul_ps(_mm512_moveldup_ps(values), _mm512_permutex2var_ps(c, cos_sin, s));
    const __m512 second =
        _mm512_mul_ps(_mm512_movehdup_ps(values), _mm512_permutex2var_ps(c, sin_cos, s));
    // Even lanes: a cos - b sin; odd ones: a sin + b cos.
    const __m512 sum = _mm512_add_ps(first, second);
    const __m512 rotated = _mm512_mask_sub_ps(sum, kEvenLanes, first, second);
    _mm512_mask_storeu_ps(x + 2 * p, mask, rotated);
  }
}

void RopeHalf(float* x, const float* cos, const float* sin, int64_t pairs) {
  for (int64_t p = 0; p < pairs; p += kLanes) {
    const __mmask16 mask = FirstLanes(pairs - p < kLanes ? pairs - p : kLanes);
    const __m512 c = _mm512_maskz_loadu_ps(mask, cos + p);
    const __m512 s = _mm512_maskz_loadu_ps(mask, sin + p);
    const __m512 a = _mm512_maskz_loadu_ps(mask, x + p);
    const __m512 b = _mm512_maskz_loadu_ps(mask, x + p + pairs);
    const __m512 rotated_a = _mm512_sub_ps(_mm512_mul_ps(a, c), _mm512_mul_ps(b, s));
    const __m512 rotated_b = _mm512_add_ps(_mm512_mul_ps(a, s), _mm512_mul_ps(b, c));
    _mm512_mask_storeu_ps(x + p, mask, rotated_a);
    _mm512_mask_storeu_ps(x + p + pairs, mask, rotated_b);
  }
}

}  // namespace tenon::avx512vnni
