// What attention over blocks of float types and of packed ones share, all with internal linkage.
#pragma once

#include "hal/cpu/attention_span.h"
#include "hal/cpu/avx2/vector_math.h"

namespace tenon::avx2 {

inline constexpr int64_t kMaxHeadDim = 256;
inline constexpr int kKeyVectors = static_cast<int>(kKvBlockTokens / kLanes);

// The running state of the online softmax of kHeads heads.
template <int kHeads>
struct HeadState {
  float max[kHeads];
  float sum[kHeads];
  alignas(32) float out[kHeads][kMaxHeadDim];
};

static inline __m256 CapScores(__m256 scores, float softcap) {
  if (softcap == 0.0f) {
    return scores;
  }
  const __m256 one = _mm256_set1_ps(1.0f);
  const __m256 power = Exp(_mm256_mul_ps(scores, _mm256_set1_ps(2.0f / softcap)));
  const __m256 tail = _mm256_div_ps(one, _mm256_add_ps(power, one));
  return _mm256_fmadd_ps(_mm256_set1_ps(-2.0f * softcap), tail, _mm256_set1_ps(softcap));
}

// Dot products to scores; those outside the span, which may be NaN, to minus infinity, by masks
// alone. A span of the whole block, as most are, needs none.
static inline void ScaleScores(const AttentionArgs& args, const BlockSpan& span, const __m256* dots,
                               __m256* scores) {
  const bool all = span.first == 0 && span.last == kKvBlockTokens;
  const __m256 outside = _mm256_set1_ps(-__builtin_inff());
#pragma GCC unroll 8
  for (int v = 0; v < kKeyVectors; ++v) {
    const __m256 scaled = _mm256_mul_ps(_mm256_set1_ps(args.scale), dots[v]);
    scores[v] = CapScores(scaled, args.softcap);
  }
  if (all) {
    return;
  }
#pragma GCC unroll 8
  for (int v = 0; v < kKeyVectors; ++v) {
    const __m256i mask = LaneMask(span.first - v * kLanes, span.last - v * kLanes);
    scores[v] = _mm256_blendv_ps(outside, scores[v], _mm256_castsi256_ps(mask));
  }
}

// The largest score, or `max`. A comparison with NaN gives its second operand.
static inline float MaxScore(const __m256* scores, float max) {
  __m256 largest = _mm256_set1_ps(max);
#pragma GCC unroll 8
  for (int v = 0; v < kKeyVectors; ++v) {
    largest = _mm256_max_ps(scores[v], largest);
  }
  return MaxLane(largest);
}

// Turns one head's scores into probabilities relative to the new maximum; slots outside the span
// become 0, the exponential of minus infinity. Returns the correction of what the head has so far.
template <int kHeads>
static inline float Softmax(const __m256* scores, float max, int h, HeadState<kHeads>* state,
                            float* weights) {
  __m256 p[kKeyVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kKeyVectors; ++v) {
    p[v] = ExpBelowHigh(_mm256_sub_ps(scores[v], _mm256_set1_ps(max)));
    _mm256_store_ps(weights + v * kLanes, p[v]);
  }
  const float sum = HalvingSum(_mm256_add_ps(_mm256_add_ps(p[0], p[2]), _mm256_add_ps(p[1], p[3])));
  // Most blocks leave the maximum as it is: exp(0) is 1.
  const float correction = max == state->max[h] ? 1.0f : ExpScalar(state->max[h] - max);
  state->sum[h] = __builtin_fmaf(state->sum[h], correction, sum);
  state->max[h] = max;
  return correction;
}

// Nothing seen yet.
template <int kHeads>
static inline void BeginHeads(const AttentionArgs& args, HeadState<kHeads>* state) {
  for (int h = 0; h < kHeads; ++h) {
    state->max[h] = -__builtin_inff();
    state->sum[h] = 0.0f;
    __builtin_memset(state->out[h], 0, static_cast<size_t>(args.head_dim) * sizeof(float));
  }
}

// The results of heads [head, head + kHeads).
template <int kHeads>
static inline void StoreHeads(const AttentionArgs& args, int64_t head,
                              const HeadState<kHeads>& state) {
  for (int h = 0; h < kHeads; ++h) {
    if (args.partial != nullptr) {
      args.partial[head + h] = {state.max[h], state.sum[h]};
    }
    const __m256 inverse = _mm256_set1_ps(args.partial == nullptr ? 1.0f / state.sum[h] : 1.0f);
    float* out = args.out + (head + h) * args.head_dim;
    for (int64_t d = 0; d < args.head_dim; d += kLanes) {
      _mm256_storeu_ps(out + d, _mm256_mul_ps(_mm256_load_ps(state.out[h] + d), inverse));
    }
  }
}

}  // namespace tenon::avx2
