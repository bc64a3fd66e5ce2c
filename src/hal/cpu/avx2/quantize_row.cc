// Rows of floats to rows of int8 blocks (hal/kernel_set.h).
//
// Eight blocks go through each part of the work together, so that the divisions of one block do not
// wait for those of another, and four blocks share a vector where there is one number a group.
#include "hal/cpu/activation_steps.h"
#include "hal/cpu/avx2/avx2_kernels.h"
#include "hal/cpu/avx2/vector_math.h"

namespace tenon::avx2 {
namespace {

constexpr int64_t kBatchBlocks = 8;
constexpr int64_t kBatchGroups = 2 * kBatchBlocks;

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

// Two vectors' results, one for each group, to two consecutive numbers.
template <class Op>
void StoreFolded(__m256i first, __m256i second, int32_t* out, Op op) {
  const __m256i lower = _mm256_permute2x128_si256(first, second, 0x20);
  const __m256i upper = _mm256_permute2x128_si256(first, second, 0x31);
  __m256i four = op(lower, upper);
  four = op(four, _mm256_shuffle_epi32(four, 0x4e));
  four = op(four, _mm256_shuffle_epi32(four, 0xb1));
  const __m128i both =
      _mm_unpacklo_epi32(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out), both);
}

// Nearest integers within -127..127, a NaN as -127.
__m256i NearestLevels(__m256 ratio) {
  const __m256 low = _mm256_max_ps(ratio, _mm256_set1_ps(-127.0f));
  return _mm256_cvtps_epi32(_mm256_min_ps(low, _mm256_set1_ps(127.0f)));
}

// Rounds 32 values by the inverses of the two groups' steps to levels, stored in both orders;
// sums[2] become those of the groups' levels.
void RoundBlock(const float* x, const float* inverses, const ActivationBlock& block,
                int32_t* sums) {
  const __m256 first_inverse = _mm256_broadcast_ss(inverses);
  const __m256 second_inverse = _mm256_broadcast_ss(inverses + 1);
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
  StoreFolded(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d), sums,
              [](__m256i m, __m256i n) { return _mm256_add_epi32(m, n); });
}

// One number for each group of a batch: group 0 and 1 of block 0, of block 1 and so on.
struct alignas(32) Batch {
  float range[kBatchGroups];
  float multiplier[kBatchGroups];
  float scale[kBatchGroups];
  float step[kBatchGroups];
  float inverse[kBatchGroups];
  int32_t level_sum[kBatchGroups];
};

// Ranges of the batch's groups; whether all are finite.
bool MeasureRanges(const float* x, int64_t blocks, Batch* batch) {
  auto* ranges = reinterpret_cast<int32_t*>(batch->range);
  __m256i largest = _mm256_setzero_si256();
  for (int64_t b = 0; b < blocks; ++b, x += kActivationBlockValues) {
    const __m256i first = _mm256_max_epi32(Magnitudes(x), Magnitudes(x + 8));
    const __m256i second = _mm256_max_epi32(Magnitudes(x + 16), Magnitudes(x + 24));
    StoreFolded(first, second, ranges + 2 * b,
                [](__m256i m, __m256i n) { return _mm256_max_epi32(m, n); });
    largest = _mm256_max_epi32(largest, _mm256_max_epi32(first, second));
  }
  return __builtin_bit_cast(float, LargestLane(largest)) <= __FLT_MAX__;
}

// Four blocks' multipliers, scales, steps and inverses from their finite ranges, at group `at`.
void SetStepsOfFour(Batch* batch, int64_t at) {
  const __m256 ranges = _mm256_load_ps(batch->range + at);
  const __m256 range = _mm256_max_ps(ranges, _mm256_permute_ps(ranges, 0xb1));
  const __m256 has_levels = _mm256_cmp_ps(range, _mm256_set1_ps(kLeastBlockRange), _CMP_GE_OQ);
  const __m256 one = _mm256_set1_ps(1.0f);
  const __m256 most = _mm256_set1_ps(static_cast<float>(kMaxMultiplier));
  const __m256 exact = _mm256_mul_ps(_mm256_mul_ps(ranges, _mm256_div_ps(one, range)), most);
  const __m256 whole = _mm256_min_ps(_mm256_ceil_ps(exact), most);
  const __m256 multiplier = _mm256_and_ps(has_levels, whole);
  const __m256 scale =
      _mm256_and_ps(has_levels, _mm256_mul_ps(range, _mm256_set1_ps(kScaleOfRange)));
  const __m256 step = _mm256_mul_ps(scale, multiplier);
  const __m256 is_zero = _mm256_cmp_ps(step, _mm256_setzero_ps(), _CMP_EQ_OQ);
  _mm256_store_ps(batch->multiplier + at, multiplier);
  _mm256_store_ps(batch->scale + at, scale);
  _mm256_store_ps(batch->step + at, step);
  _mm256_store_ps(batch->inverse + at, _mm256_andnot_ps(is_zero, _mm256_div_ps(one, step)));
}

void StoreBlock(const Batch& batch, int64_t at, const ActivationBlock& block) {
  const auto first = static_cast<int16_t>(batch.multiplier[at]);
  const auto second = static_cast<int16_t>(batch.multiplier[at + 1]);
  block.whole->multiplier[0] = first;
  block.whole->multiplier[1] = second;
  block.whole->scale = batch.scale[at];
  __builtin_memcpy(block.groups->step, batch.step + at, sizeof(block.groups->step));
  SetSums(batch.level_sum[at], batch.level_sum[at + 1], block);
}

// A block by itself, which may have an infinity or a NaN.
void QuantizeBlock(const float* x, const ActivationBlock& block) {
  Batch batch = {};
  const bool finite = MeasureRanges(x, 1, &batch);
  const float larger = batch.range[0] > batch.range[1] ? batch.range[0] : batch.range[1];
  if (!HasLevels(finite ? larger : __builtin_nanf(""), block)) {
    return;
  }
  SetStepsOfFour(&batch, 0);
  RoundBlock(x, batch.inverse, block, batch.level_sum);
  StoreBlock(batch, 0, block);
}

void QuantizeBatch(const float* x, int64_t blocks, const ActivationBlock& first) {
  Batch batch = {};
  if (!MeasureRanges(x, blocks, &batch)) {
    for (int64_t b = 0; b < blocks; ++b) {
      QuantizeBlock(x + b * kActivationBlockValues, {first.whole + b, first.groups + b});
    }
    return;
  }
  for (int64_t at = 0; at < 2 * blocks; at += kLanes) {
    SetStepsOfFour(&batch, at);
  }
  for (int64_t b = 0; b < blocks; ++b) {
    RoundBlock(x + b * kActivationBlockValues, batch.inverse + 2 * b,
               {first.whole + b, first.groups + b}, batch.level_sum + 2 * b);
  }
  for (int64_t b = 0; b < blocks; ++b) {
    StoreBlock(batch, 2 * b, {first.whole + b, first.groups + b});
  }
}

}  // namespace

void QuantizeRow(const float* x, int64_t k, std::byte* out) {
  const int64_t blocks = k / kActivationBlockValues;
  for (int64_t b = 0; b < blocks; b += kBatchBlocks) {
    const int64_t count = blocks - b < kBatchBlocks ? blocks - b : kBatchBlocks;
    QuantizeBatch(x + b * kActivationBlockValues, count, BlockAt(out, k, b));
  }
}

void QuantizeRowPerToken(const float* x, int64_t k, std::byte* out) {
  __m256i largest = _mm256_castps_si256(_mm256_set1_ps(kLeastTokenRange));
  for (int64_t i = 0; i < k; i += kLanes) {
    largest = _mm256_max_epi32(largest, Magnitudes(x + i));
  }
  const auto range = __builtin_bit_cast(float, LargestLane(largest));
  const float inverses[2] = {127.0f / range, 127.0f / range};
  for (int64_t b = 0; b < k / kActivationBlockValues; ++b) {
    const ActivationBlock block = BlockAt(out, k, b);
    int32_t sums[2];
    RoundBlock(x + b * kActivationBlockValues, inverses, block, sums);
    SetSteps(range / 127.0f, 1, 1, block);
    SetSums(sums[0], sums[1], block);
  }
}

}  // namespace tenon::avx2
