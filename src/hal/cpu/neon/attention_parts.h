// What attention over blocks of float types and of packed ones share, all with internal linkage.
#pragma once

#include "hal/cpu/attention_span.h"
#include "hal/cpu/neon/vectors.h"

namespace tenon::neon {

// Vectors of one block's 32 slots.
inline constexpr int kSlotVectors = 8;

static inline float32x4_t CapScores(float32x4_t scores, float softcap) {
  if (softcap == 0.0f)
    return scores;
  const float32x4_t one = vdupq_n_f32(1.0f);
  const float32x4_t exponential = Exp(vmulq_n_f32(scores, 2.0f / softcap));
  const float32x4_t tail = vdivq_f32(one, vaddq_f32(exponential, one));
  return vfmaq_f32(vdupq_n_f32(softcap), vdupq_n_f32(-2.0f * softcap), tail);
}

static inline float32x4_t ScaleScores(const AttentionArgs& args, float32x4_t dots) {
  return CapScores(vmulq_n_f32(dots, args.scale), args.softcap);
}

// The running state of one head's online softmax; its unscaled output is in args.out.
struct HeadState {
  float max;
  float sum;
};

// Scores to weights, in place, 0 outside the span; returns the correction of what the head has.
static inline float UpdateSoftmax(const BlockSpan& span, HeadState* state, float* p) {
  float max = state->max;
  for (int64_t j = span.first; j < span.last; ++j)
    max = p[j] > max ? p[j] : max;
  float32x4_t weights[kSlotVectors];
  for (int v = 0; v < kSlotVectors; ++v)
    vst1q_f32(p + v * kLanes, Exp(vsubq_f32(vld1q_f32(p + v * kLanes), vdupq_n_f32(max))));
  for (int64_t j = 0; j < span.first; ++j)
    p[j] = 0.0f;
  for (int64_t j = span.last; j < kKvBlockTokens; ++j)
    p[j] = 0.0f;
  for (int v = 0; v < kSlotVectors; ++v)
    weights[v] = vld1q_f32(p + v * kLanes);
  for (int half = kSlotVectors / 2; half >= 1; half /= 2) {
    for (int v = 0; v < half; ++v)
      weights[v] = vaddq_f32(weights[v], weights[v + half]);
  }
  const float correction = ExpScalar(state->max - max);
  state->sum = __builtin_fmaf(state->sum, correction, HalvingSum(weights[0]));
  state->max = max;
  return correction;
}

using AddBlockFn = void (*)(const AttentionArgs& args, const float* query, const BlockSpan& span,
                            HeadState* state, float* out);

// All heads, block after block.
template <AddBlockFn kAddBlock>
static inline void VisitBlocks(const AttentionArgs& args) {
  const int64_t last_block = (args.end - 1) / kKvBlockTokens;
  for (int64_t h = 0; h < args.heads; ++h) {
    const float* query = args.query + h * args.head_dim;
    float* out = args.out + h * args.head_dim;
    HeadState state = {-__builtin_inff(), 0.0f};
    for (int64_t d = 0; d < args.head_dim; ++d)
      out[d] = 0.0f;
    for (int64_t block = args.begin / kKvBlockTokens; block <= last_block; ++block)
      kAddBlock(args, query, SpanOf(args, block), &state, out);
    if (args.partial != nullptr) {
      args.partial[h] = {state.max, state.sum};
      continue;
    }
    const float inverse = 1.0f / state.sum;
    for (int64_t d = 0; d < args.head_dim; ++d)
      out[d] *= inverse;
  }
}

}  // namespace tenon::neon
