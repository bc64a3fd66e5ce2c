#include "hal/cpu/neon/neon_kernels.h"
#include "hal/cpu/neon/vectors.h"
#include "hal/cpu/scalar_half.h"

namespace tenon::neon {
namespace {

// Vectors of one block's 32 slots.
constexpr int kSlotVectors = 8;

template <KvType kType>
inline float32x4_t LoadKv(const std::byte* base, int64_t index) {
  const std::byte* at = base + index * KvTypeBytes(kType);
  if constexpr (kType == KvType::kF32)
    return LoadFloats(at);
  else if constexpr (kType == KvType::kF16)
    return LoadHalfs(at);
  else
    return LoadBrains(at);
}

template <KvType kType>
inline void StoreKv(float value, std::byte* base, int64_t index) {
  std::byte* at = base + index * KvTypeBytes(kType);
  if constexpr (kType == KvType::kF32) {
    __builtin_memcpy(at, &value, 4);
  } else {
    const uint16_t bits = kType == KvType::kF16 ? ScalarF32ToF16(value) : ScalarF32ToBF16(value);
    __builtin_memcpy(at, &bits, 2);
  }
}

// Keys are scattered one by one, and a token has few of them: scalar code is as fast as any.
template <KvType kType>
void KvStore(const KvStoreArgs& args) {
  for (int64_t d = 0; d < args.head_dim; ++d) {
    StoreKv<kType>(args.key[d], args.key_block, d * kKvBlockTokens + args.slot);
    StoreKv<kType>(args.value[d], args.value_block, args.slot * args.head_dim + d);
  }
}

// The keys of one block that are seen: slots [first, last).
struct BlockSpan {
  const std::byte* keys;
  const std::byte* values;
  int64_t first;
  int64_t last;
};

inline BlockSpan SpanOf(const AttentionArgs& args, int64_t block) {
  const int64_t start = block * kKvBlockTokens;
  const int64_t offset = args.block_table[block] * args.block_stride;
  const int64_t first = args.begin > start ? args.begin - start : 0;
  const int64_t left = args.end - start;
  return {args.keys + offset, args.values + offset, first,
          left < kKvBlockTokens ? left : kKvBlockTokens};
}

inline float32x4_t CapScores(float32x4_t scores, float softcap) {
  if (softcap == 0.0f)
    return scores;
  const float32x4_t one = vdupq_n_f32(1.0f);
  const float32x4_t exponential = Exp(vmulq_n_f32(scores, 2.0f / softcap));
  const float32x4_t tail = vdivq_f32(one, vaddq_f32(exponential, one));
  return vfmaq_f32(vdupq_n_f32(softcap), vdupq_n_f32(-2.0f * softcap), tail);
}

// scores[32] of one head; eight independent sums.
template <KvType kType>
inline void ComputeScores(const AttentionArgs& args, const float* query, const std::byte* keys,
                          float* scores) {
  float32x4_t acc[kSlotVectors];
  for (float32x4_t& sum : acc)
    sum = vdupq_n_f32(0.0f);
  for (int64_t d = 0; d < args.head_dim; ++d) {
    for (int v = 0; v < kSlotVectors; ++v)
      acc[v] = vfmaq_n_f32(acc[v], LoadKv<kType>(keys, d * kKvBlockTokens + v * kLanes), query[d]);
  }
  for (int v = 0; v < kSlotVectors; ++v)
    vst1q_f32(scores + v * kLanes, CapScores(vmulq_n_f32(acc[v], args.scale), args.softcap));
}

// The running state of one head's online softmax; its unscaled output is in args.out.
struct HeadState {
  float max;
  float sum;
};

// Scores to weights, in place, 0 outside the span; returns the correction of what the head has.
inline float UpdateSoftmax(const BlockSpan& span, HeadState* state, float* p) {
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

// out[d..d+4*kVectors) = out * correction + sum over the span's p * value.
template <KvType kType, int kVectors>
inline void AddValues(const AttentionArgs& args, const BlockSpan& span, const float* p,
                      float correction, int64_t d, float* out) {
  float32x4_t acc[kVectors];
  for (int v = 0; v < kVectors; ++v)
    acc[v] = vmulq_n_f32(vld1q_f32(out + d + v * kLanes), correction);
  for (int64_t j = span.first; j < span.last; ++j) {
    for (int v = 0; v < kVectors; ++v) {
      const float32x4_t values = LoadKv<kType>(span.values, j * args.head_dim + d + v * kLanes);
      acc[v] = vfmaq_n_f32(acc[v], values, p[j]);
    }
  }
  for (int v = 0; v < kVectors; ++v)
    vst1q_f32(out + d + v * kLanes, acc[v]);
}

template <KvType kType>
inline void AddBlock(const AttentionArgs& args, const float* query, const BlockSpan& span,
                     HeadState* state, float* out) {
  float p[kKvBlockTokens];
  ComputeScores<kType>(args, query, span.keys, p);
  const float correction = UpdateSoftmax(span, state, p);
  // Eight independent sums; head sizes are multiples of 8, so the rest is in pairs.
  int64_t d = 0;
  for (; d + 8 * kLanes <= args.head_dim; d += 8 * kLanes)
    AddValues<kType, 8>(args, span, p, correction, d, out);
  for (; d < args.head_dim; d += 2 * kLanes)
    AddValues<kType, 2>(args, span, p, correction, d, out);
}

template <KvType kType>
void Attention(const AttentionArgs& args) {
  const int64_t last_block = (args.end - 1) / kKvBlockTokens;
  for (int64_t h = 0; h < args.heads; ++h) {
    const float* query = args.query + h * args.head_dim;
    float* out = args.out + h * args.head_dim;
    HeadState state = {-__builtin_inff(), 0.0f};
    for (int64_t d = 0; d < args.head_dim; ++d)
      out[d] = 0.0f;
    for (int64_t block = args.begin / kKvBlockTokens; block <= last_block; ++block)
      AddBlock<kType>(args, query, SpanOf(args, block), &state, out);
    if (args.partial != nullptr) {
      args.partial[h] = {state.max, state.sum};
      continue;
    }
    const float inverse = 1.0f / state.sum;
    for (int64_t d = 0; d < args.head_dim; ++d)
      out[d] *= inverse;
  }
}

}  // namespace

void KvStoreF32(const KvStoreArgs& args) {
  KvStore<KvType::kF32>(args);
}
void KvStoreF16(const KvStoreArgs& args) {
  KvStore<KvType::kF16>(args);
}
void KvStoreBF16(const KvStoreArgs& args) {
  KvStore<KvType::kBF16>(args);
}
void AttentionF32(const AttentionArgs& args) {
  Attention<KvType::kF32>(args);
}
void AttentionF16(const AttentionArgs& args) {
  Attention<KvType::kF16>(args);
}
void AttentionBF16(const AttentionArgs& args) {
  Attention<KvType::kBF16>(args);
}

}  // namespace tenon::neon
