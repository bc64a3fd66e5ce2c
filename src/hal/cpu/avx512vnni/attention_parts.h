// What attention over blocks of float types and of packed ones share, all with internal linkage.
#pragma once

#include "hal/cpu/attention_span.h"
#include "hal/cpu/avx512vnni/vectors.h"

namespace tenon::avx512vnni {

// The two vectors of one block's slots.
struct Slots {
  __m512 low;   // 0..15
  __m512 high;  // 16..31
};

// The running state of kHeads heads' online softmax; their unscaled outputs are in args.out.
template <int kHeads>
struct HeadStates {
  float max[kHeads];
  float sum[kHeads];
};

static inline __m512 CapScores(__m512 scores, float softcap) {
  if (softcap == 0.0f)
    return scores;
  const __m512 one = _mm512_set1_ps(1.0f);
  const __m512 exponential = Exp(_mm512_mul_ps(scores, _mm512_set1_ps(2.0f / softcap)));
  const __m512 tail = _mm512_div_ps(one, _mm512_add_ps(exponential, one));
  return _mm512_fmadd_ps(_mm512_set1_ps(-2.0f * softcap), tail, _mm512_set1_ps(softcap));
}

static inline Slots ScaleScores(const AttentionArgs& args, const Slots& dots) {
  const __m512 scale = _mm512_set1_ps(args.scale);
  return {CapScores(_mm512_mul_ps(scale, dots.low), args.softcap),
          CapScores(_mm512_mul_ps(scale, dots.high), args.softcap)};
}

static inline float MaxLane(__m512 lanes) {
  const __m256 eight =
      _mm256_max_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_shuffle_ps(four, four, 1)));
}

// Scores to weights p, written to p[32] (0 outside the span); returns the correction of what the
// head has so far.
static inline float UpdateSoftmax(const Slots& scores, uint32_t seen, float* max, float* sum,
                                  float* p) {
  const auto seen_low = static_cast<__mmask16>(seen & 0xffffu);
  const auto seen_high = static_cast<__mmask16>(seen >> 16);
  const __m512 lowest = _mm512_set1_ps(-__builtin_inff());
  const float block_max =
      MaxLane(_mm512_max_ps(_mm512_mask_mov_ps(lowest, seen_low, scores.low),
                            _mm512_mask_mov_ps(lowest, seen_high, scores.high)));
  const float new_max = block_max > *max ? block_max : *max;
  const __m512 shift = _mm512_set1_ps(new_max);
  const __m512 low = _mm512_maskz_mov_ps(seen_low, Exp(_mm512_sub_ps(scores.low, shift)));
  const __m512 high = _mm512_maskz_mov_ps(seen_high, Exp(_mm512_sub_ps(scores.high, shift)));
  _mm512_storeu_ps(p, low);
  _mm512_storeu_ps(p + kLanes, high);
  const float correction = ExpScalar(*max - new_max);
  *sum = __builtin_fmaf(*sum, correction, HalvingSum(_mm512_add_ps(low, high)));
  *max = new_max;
  return correction;
}

// The weights of a block's values, and the corrections of the outputs so far.
template <int kHeads>
struct BlockWeights {
  alignas(64) float p[kHeads * kKvBlockTokens];
  float corrections[kHeads];
};

template <int kHeads>
static inline void UpdateHeads(const BlockSpan& span, const Slots* scores,
                               HeadStates<kHeads>* states, BlockWeights<kHeads>* weights) {
  const uint32_t seen = (span.last == 32 ? ~0u : (1u << span.last) - 1u) & (~0u << span.first);
  for (int h = 0; h < kHeads; ++h) {
    weights->corrections[h] = UpdateSoftmax(scores[h], seen, &states->max[h], &states->sum[h],
                                            weights->p + h * kKvBlockTokens);
  }
}

template <int kHeads>
using AddBlockFn = void (*)(const AttentionArgs& args, const float* queries, const BlockSpan& span,
                            HeadStates<kHeads>* states, float* out);

// Heads [first_head, first_head + kHeads), block after block.
template <int kHeads, AddBlockFn<kHeads> kAddBlock>
static inline void VisitBlocks(const AttentionArgs& args, int64_t first_head) {
  const float* queries = args.query + first_head * args.head_dim;
  float* out = args.out + first_head * args.head_dim;
  HeadStates<kHeads> states;
  for (int h = 0; h < kHeads; ++h) {
    states.max[h] = -__builtin_inff();
    states.sum[h] = 0.0f;
  }
  for (int64_t i = 0; i < kHeads * args.head_dim; ++i)
    out[i] = 0.0f;
  const int64_t last_block = (args.end - 1) / kKvBlockTokens;
  for (int64_t block = args.begin / kKvBlockTokens; block <= last_block; ++block)
    kAddBlock(args, queries, SpanOf(args, block), &states, out);
  for (int h = 0; h < kHeads; ++h) {
    if (args.partial != nullptr) {
      args.partial[first_head + h] = {states.max[h], states.sum[h]};
      continue;
    }
    const float inverse = 1.0f / states.sum[h];
    for (int64_t d = 0; d < args.head_dim; ++d)
      out[h * args.head_dim + d] *= inverse;
  }
}

}  // namespace tenon::avx512vnni
