#include "hal/cpu/activation_steps.h"
#include "hal/cpu/avx2/avx2_kernels.h"
#include "hal/cpu/avx2/vector_math.h"

namespace tenon::avx2 {
namespace {

// Groups of eight, then the rest under a mask.
template <class Op>
void ApplyUnary(const float* x, int64_t n, float* out, Op op) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    _mm256_storeu_ps(out + i, op(_mm256_loadu_ps(x + i)));
  }
  if (i < n) {
    const __m256i mask = LaneMask(0, n - i);
    _mm256_maskstore_ps(out + i, mask, op(_mm256_maskload_ps(x + i, mask)));
  }
}

template <class Op>
void ApplyBinary(const float* a, const float* b, int64_t n, float* out, Op op) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    _mm256_storeu_ps(out + i, op(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i)));
  }
  if (i < n) {
    const __m256i mask = LaneMask(0, n - i);
    const __m256 tail = op(_mm256_maskload_ps(a + i, mask), _mm256_maskload_ps(b + i, mask));
    _mm256_maskstore_ps(out + i, mask, tail);
  }
}

__m256 SiluValue(__m256 x) {
  const __m256 negated = _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));
  return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), Exp(negated)));
}

__m256 GeluValue(__m256 x) {
  const __m256 inner =
      _mm256_fmadd_ps(_mm256_mul_ps(x, x), _mm256_set1_ps(kGeluCubic), _mm256_set1_ps(kGeluLinear));
  const __m256 exponential = Exp(_mm256_mul_ps(x, inner));
  return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), exponential));
}

// The bits of |x|, which order as the values do, NaN above all.
__m256i Magnitudes(__m256 x) {
  return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
}

float LargestLane(__m256i eight) {
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1));
  return _mm_cvtss_f32(_mm_castsi128_ps(four));
}

__m256i NearestLevels(__m256 ratio) {
  const __m256 low = _mm256_max_ps(ratio, _mm256_set1_ps(-127.0f));
  return _mm256_cvtps_epi32(_mm256_min_ps(low, _mm256_set1_ps(127.0f)));
}

// Two vectors' results, one for each group: in the lower and the upper four lanes of one vector.
template <class Op>
__m256i FoldGroups(__m256i first, __m256i second, Op op) {
  const __m256i lower = _mm256_permute2x128_si256(first, second, 0x20);
  const __m256i upper = _mm256_permute2x128_si256(first, second, 0x31);
  __m256i four = op(lower, upper);
  four = op(four, _mm256_shuffle_epi32(four, 0x4e));
  return op(four, _mm256_shuffle_epi32(four, 0xb1));
}

__m256i MaxOfGroups(__m256i first, __m256i second) {
  return FoldGroups(first, second, [](__m256i a, __m256i b) { return _mm256_max_epi32(a, b); });
}

__m256i SumOfGroups(__m256i first, __m256i second) {
  return FoldGroups(first, second, [](__m256i a, __m256i b) { return _mm256_add_epi32(a, b); });
}

int32_t LowerLane(__m256i v) {
  return _mm256_cvtsi256_si32(v);
}

int32_t UpperLane(__m256i v) {
  return _mm_cvtsi128_si32(_mm256_extracti128_si256(v, 1));
}

// What x is multiplied with before it is rounded, one factor for each group.
struct Inverses {
  __m256 first;
  __m256 second;
};

// Rounds 32 values to levels, stored in both orders, and sets their sums.
void RoundBlock(const float* x, const Inverses& inverses, const ActivationBlock& block) {
  const __m256i a = NearestLevels(_mm256_mul_ps(_mm256_loadu_ps(x), inverses.first));
  const __m256i b = NearestLevels(_mm256_mul_ps(_mm256_loadu_ps(x + 8), inverses.first));
  const __m256i c = NearestLevels(_mm256_mul_ps(_mm256_loadu_ps(x + 16), inverses.second));
  const __m256i d = NearestLevels(_mm256_mul_ps(_mm256_loadu_ps(x + 24), inverses.second));
  // packs works on 128-bit halves: a0 b0 a1 b1, put in order by the permutation.
  const __m256i first = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
  const __m256i second = _mm256_permute4x64_epi64(_mm256_packs_epi32(c, d), 0xd8);
  const __m256i bytes = _mm256_packs_epi16(first, second);
  const __m256i pairs = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(block.whole->pairs),
                      _mm256_shuffle_epi8(bytes, pairs));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(block.groups->q),
                      _mm256_permute4x64_epi64(bytes, 0xd8));
  const __m256i sums = SumOfGroups(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d));
  SetSums(LowerLane(sums), UpperLane(sums), block);
}

// The definition in hal/kernel_set.h, group 0 in the lower lanes and group 1 in the upper ones.
void QuantizeBlock(const float* x, const ActivationBlock& block) {
  const auto magnitudes = [x](int64_t i) { return Magnitudes(_mm256_loadu_ps(x + i)); };
  const __m256i ranges = MaxOfGroups(_mm256_max_epi32(magnitudes(0), magnitudes(8)),
                                     _mm256_max_epi32(magnitudes(16), magnitudes(24)));
  const __m256i largest = _mm256_max_epi32(ranges, _mm256_permute4x64_epi64(ranges, 0x4e));
  const auto range = __builtin_bit_cast(float, LowerLane(largest));
  if (!HasLevels(range, block)) {
    return;
  }
  const float scale = range * kScaleOfRange;
  const __m256 most = _mm256_set1_ps(static_cast<float>(kMaxMultiplier));
  const __m256 exact =
      _mm256_mul_ps(_mm256_mul_ps(_mm256_castsi256_ps(ranges), _mm256_set1_ps(1.0f / range)), most);
  const __m256 multipliers = _mm256_min_ps(_mm256_ceil_ps(exact), most);
  const __m256 steps = _mm256_mul_ps(_mm256_set1_ps(scale), multipliers);
  const __m256 is_zero = _mm256_cmp_ps(steps, _mm256_setzero_ps(), _CMP_EQ_OQ);
  const __m256 inverses = _mm256_andnot_ps(is_zero, _mm256_div_ps(_mm256_set1_ps(1.0f), steps));
  const __m256i whole = _mm256_cvtps_epi32(multipliers);
  SetSteps(scale, static_cast<int16_t>(LowerLane(whole)), static_cast<int16_t>(UpperLane(whole)),
           block);
  RoundBlock(x,
             {_mm256_permute2f128_ps(inverses, inverses, 0x00),
              _mm256_permute2f128_ps(inverses, inverses, 0x11)},
             block);
}

// 16 lanes by i mod 16, then halved (see the reference).
float SumOfSquares(const float* x, int64_t n) {
  __m256 low = _mm256_setzero_ps();
  __m256 high = _mm256_setzero_ps();
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256 a = _mm256_loadu_ps(x + i);
    const __m256 b = _mm256_loadu_ps(x + i + kLanes);
    low = _mm256_fmadd_ps(a, a, low);
    high = _mm256_fmadd_ps(b, b, high);
  }
  if (i < n) {
    const __m256 a = _mm256_maskload_ps(x + i, LaneMask(0, n - i));
    low = _mm256_fmadd_ps(a, a, low);
  }
  if (i + kLanes < n) {
    const __m256 b = _mm256_maskload_ps(x + i + kLanes, LaneMask(0, n - i - kLanes));
    high = _mm256_fmadd_ps(b, b, high);
  }
  return HalvingSum(_mm256_add_ps(low, high));
}

void Rotate(float* a, float* b, float cos, float sin) {
  const float x = *a;
  const float y = *b;
  *a = x * cos - y * sin;
  *b = x * sin + y * cos;
}

}  // namespace

void QuantizeRow(const float* x, int64_t k, std::byte* out) {
  for (int64_t b = 0; b < k / kActivationBlockValues; ++b) {
    QuantizeBlock(x + b * kActivationBlockValues, BlockAt(out, k, b));
  }
}

void QuantizeRowPerToken(const float* x, int64_t k, std::byte* out) {
  __m256i largest = Magnitudes(_mm256_set1_ps(kLeastTokenRange));
  for (int64_t i = 0; i < k; i += kLanes) {
    largest = _mm256_max_epi32(largest, Magnitudes(_mm256_loadu_ps(x + i)));
  }
  const float range = LargestLane(largest);
  const __m256 inverse = _mm256_set1_ps(127.0f / range);
  for (int64_t b = 0; b < k / kActivationBlockValues; ++b) {
    const ActivationBlock block = BlockAt(out, k, b);
    SetSteps(range / 127.0f, 1, 1, block);
    RoundBlock(x + b * kActivationBlockValues, {inverse, inverse}, block);
  }
}

void RmsNorm(const float* x, const float* weight, int64_t n, float eps, float* out) {
  const float mean = SumOfSquares(x, n) / static_cast<float>(n);
  const __m256 inverse = _mm256_set1_ps(1.0f / __builtin_sqrtf(mean + eps));
  ApplyBinary(x, weight, n, out, [inverse](__m256 a, __m256 b) {
    return _mm256_mul_ps(_mm256_mul_ps(a, inverse), b);
  });
}

void Add(const float* a, const float* b, int64_t n, float* out) {
  ApplyBinary(a, b, n, out, [](__m256 x, __m256 y) { return _mm256_add_ps(x, y); });
}

void Mul(const float* a, const float* b, int64_t n, float* out) {
  ApplyBinary(a, b, n, out, [](__m256 x, __m256 y) { return _mm256_mul_ps(x, y); });
}

void Scale(const float* x, float factor, int64_t n, float* out) {
  const __m256 factors = _mm256_set1_ps(factor);
  ApplyUnary(x, n, out, [factors](__m256 v) { return _mm256_mul_ps(v, factors); });
}

void Silu(const float* x, int64_t n, float* out) {
  ApplyUnary(x, n, out, [](__m256 v) { return SiluValue(v); });
}

void Gelu(const float* x, int64_t n, float* out) {
  ApplyUnary(x, n, out, [](__m256 v) { return GeluValue(v); });
}

void SiluMul(const float* a, const float* b, int64_t n, float* out) {
  ApplyBinary(a, b, n, out, [](__m256 x, __m256 y) { return _mm256_mul_ps(SiluValue(x), y); });
}

void GeluMul(const float* a, const float* b, int64_t n, float* out) {
  ApplyBinary(a, b, n, out, [](__m256 x, __m256 y) { return _mm256_mul_ps(GeluValue(x), y); });
}

// Four pairs a vector: even lanes a*cos - b*sin, odd lanes b*cos + a*sin.
void RopeInterleaved(float* x, const float* cos, const float* sin, int64_t pairs) {
  const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
  int64_t p = 0;
  for (; p + 4 <= pairs; p += 4) {
    const __m256 v = _mm256_loadu_ps(x + 2 * p);
    const __m256 c = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(cos + p)), twice);
    const __m256 s = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(sin + p)), twice);
    const __m256 swapped = _mm256_permute_ps(v, 0xb1);
    _mm256_storeu_ps(x + 2 * p, _mm256_addsub_ps(_mm256_mul_ps(v, c), _mm256_mul_ps(swapped, s)));
  }
  for (; p < pairs; ++p) {
    Rotate(x + 2 * p, x + 2 * p + 1, cos[p], sin[p]);
  }
}

void RopeHalf(float* x, const float* cos, const float* sin, int64_t pairs) {
  int64_t p = 0;
  for (; p + kLanes <= pairs; p += kLanes) {
    const __m256 a = _mm256_loadu_ps(x + p);
    const __m256 b = _mm256_loadu_ps(x + p + pairs);
    const __m256 c = _mm256_loadu_ps(cos + p);
    const __m256 s = _mm256_loadu_ps(sin + p);
    _mm256_storeu_ps(x + p, _mm256_sub_ps(_mm256_mul_ps(a, c), _mm256_mul_ps(b, s)));
    _mm256_storeu_ps(x + p + pairs, _mm256_add_ps(_mm256_mul_ps(a, s), _mm256_mul_ps(b, c)));
  }
  for (; p < pairs; ++p) {
    Rotate(x + p, x + p + pairs, cos[p], sin[p]);
  }
}

}  // namespace tenon::avx2
