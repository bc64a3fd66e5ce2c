// Rows of floats to rows of int8 blocks (hal/kernel_set.h).
//
// What there is once for each group of a block lies in the lower (group 0) and the upper (group 1)
// four lanes of a vector, and stays in registers: a load of what was just stored in pieces would
// wait for the cache.
#include "hal/cpu/activation_steps.h"
#include "hal/cpu/avx2/avx2_kernels.h"
#include "hal/cpu/avx2/vector_math.h"

namespace tenon::avx2 {
namespace {

// The bits of |x|, which order as the values do, NaN above all.
__m256i Magnitudes(const float* x) {
  return _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(x)), _mm256_set1_epi32(0x7fffffff));
}

int32_t LargestLane(__m256i eight) {
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1));
  return _mm_cvtsi128_si32(four);
}

// Two vectors' results, one for each group.
template <class Op>
__m256i FoldGroups(__m256i first, __m256i second, Op op) {
  const __m256i lower = _mm256_permute2x128_si256(first, second, 0x20);
  const __m256i upper = _mm256_permute2x128_si256(first, second, 0x31);
  __m256i four = op(lower, upper);
  four = op(four, _mm256_shuffle_epi32(four, 0x4e));
  return op(four, _mm256_shuffle_epi32(four, 0xb1));
}

__m256i SwapGroups(__m256i v) {
  return _mm256_permute4x64_epi64(v, 0x4e);
}

// One lane of either group.
__m128 PickGroups(__m256 v) {
  return _mm_unpacklo_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
}

// Nearest integers within -127..127, a NaN as -127.
__m256i NearestLevels(__m256 ratio) {
  const __m256 low = _mm256_max_ps(ratio, _mm256_set1_ps(-127.0f));
  return _mm256_cvtps_epi32(_mm256_min_ps(low, _mm256_set1_ps(127.0f)));
}

// Rounds 32 values to levels, stored in both orders; the sums of the groups' levels.
__m256i RoundBlock(const float* x, __m256 inverses, const ActivationBlock& block) {
  const __m256 first_inverse = _mm256_permute2f128_ps(inverses, inverses, 0x00);
  const __m256 second_inverse = _mm256_permute2f128_ps(inverses, inverses, 0x11);
  const __m256i a = NearestLevels(_mm256_mul_ps(_mm256_loadu_ps(x), first_inverse));
  const __m256i b = NearestLevels(_mm256_mul_ps(_mm256_loadu_ps(x + 8), first_inverse));
  const __m256i c = NearestLevels(_mm256_mul_ps(_mm256_loadu_ps(x + 16), second_inverse));
  const __m256i d = NearestLevels(_mm256_mul_ps(_mm256_loadu_ps(x + 24), second_inverse));
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
  return FoldGroups(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d),
                    [](__m256i m, __m256i n) { return _mm256_add_epi32(m, n); });
}

// Everything but the levels.
void StoreSteps(__m256 scale, __m256 multipliers, __m256i level_sums,
                const ActivationBlock& block) {
  const __m256i whole = _mm256_cvtps_epi32(multipliers);
  const __m256i products = _mm256_mullo_epi32(level_sums, whole);
  const __m256i both = _mm256_add_epi32(products, SwapGroups(products));
  // The second multiplier's low half above the first one's.
  const __m256i shifted = _mm256_slli_epi32(SwapGroups(whole), 16);
  const int32_t pair = _mm256_cvtsi256_si32(_mm256_or_si256(whole, shifted));
  __builtin_memcpy(block.whole->multiplier, &pair, sizeof(pair));
  block.whole->scale = _mm256_cvtss_f32(scale);
  block.whole->sum = _mm256_cvtss_f32(_mm256_mul_ps(scale, _mm256_cvtepi32_ps(both)));
  const __m256 steps = _mm256_mul_ps(scale, multipliers);
  const __m256 sums = _mm256_mul_ps(steps, _mm256_cvtepi32_ps(level_sums));
  _mm_storeu_ps(block.groups->step, _mm_movelh_ps(PickGroups(steps), PickGroups(sums)));
}

void RoundWide(const float* x, float inverse, int16_t* q) {
  const __m256 factor = _mm256_set1_ps(inverse);
  for (int64_t i = 0; i < kActivationBlockValues; i += 2 * kLanes) {
    const __m256i low = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i), factor));
    const __m256i high = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i + kLanes), factor));
    // packs works on 128-bit halves: put in order by the permutation.
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(q + i),
                        _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8));
  }
}

}  // namespace

void QuantizeBlock(const float* x, std::byte* row, int64_t k, int64_t index) {
  const ActivationBlock block = BlockAt(row, k, index);
  const auto max = [](__m256i m, __m256i n) { return _mm256_max_epi32(m, n); };
  const __m256i bits = FoldGroups(max(Magnitudes(x), Magnitudes(x + 8)),
                                  max(Magnitudes(x + 16), Magnitudes(x + 24)), max);
  const __m256 ranges = _mm256_castsi256_ps(bits);
  const __m256 range = _mm256_castsi256_ps(max(bits, SwapGroups(bits)));
  if (!HasLevels(_mm256_cvtss_f32(range), block)) {
    return;
  }
  const __m256 one = _mm256_set1_ps(1.0f);
  const __m256 most = _mm256_set1_ps(static_cast<float>(kMaxMultiplier));
  const __m256 exact = _mm256_mul_ps(_mm256_mul_ps(ranges, _mm256_div_ps(one, range)), most);
  const __m256 multipliers = _mm256_min_ps(_mm256_ceil_ps(exact), most);
  const __m256 scale = _mm256_mul_ps(range, _mm256_set1_ps(kScaleOfRange));
  const __m256 steps = _mm256_mul_ps(scale, multipliers);
  const __m256 is_zero = _mm256_cmp_ps(steps, _mm256_setzero_ps(), _CMP_EQ_OQ);
  const __m256 inverses = _mm256_andnot_ps(is_zero, _mm256_div_ps(one, steps));
  StoreSteps(scale, multipliers, RoundBlock(x, inverses, block), block);
}

void QuantizeRow(const float* x, int64_t k, std::byte* out) {
  QuantizeBlocks(x, k, out, QuantizeBlock);
}

void QuantizeWideBlock(const float* x, std::byte* row, int64_t, int64_t index) {
  const auto max = [](__m256i m, __m256i n) { return _mm256_max_epi32(m, n); };
  const __m256i largest =
      max(max(Magnitudes(x), Magnitudes(x + 8)), max(Magnitudes(x + 16), Magnitudes(x + 24)));
  QuantizeWide(x, static_cast<uint32_t>(LargestLane(largest)), WideBlockAt(row, index), RoundWide);
}

void QuantizeWideRow(const float* x, int64_t k, std::byte* out) {
  QuantizeBlocks(x, k, out, QuantizeWideBlock);
}

void QuantizeRowPerToken(const float* x, int64_t k, std::byte* out) {
  __m256i largest = _mm256_castps_si256(_mm256_set1_ps(kLeastTokenRange));
  for (int64_t i = 0; i < k; i += kLanes) {
    largest = _mm256_max_epi32(largest, Magnitudes(x + i));
  }
  const auto range = __builtin_bit_cast(float, LargestLane(largest));
  const __m256 inverse = _mm256_set1_ps(127.0f / range);
  const __m256 scale = _mm256_set1_ps(range / 127.0f);
  for (int64_t b = 0; b < k / kActivationBlockValues; ++b) {
    const ActivationBlock block = BlockAt(out, k, b);
    const __m256i sums = RoundBlock(x + b * kActivationBlockValues, inverse, block);
    StoreSteps(scale, _mm256_set1_ps(1.0f), sums, block);
  }
}

}  // namespace tenon::avx2
