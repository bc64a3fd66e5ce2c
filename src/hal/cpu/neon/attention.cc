// Attention over blocks of float types of the KV cache, and the writes to it. Packed blocks:
// packed_attention.cc.
#include "hal/cpu/neon/attention_parts.h"
#include "hal/cpu/neon/neon_kernels.h"
#include "hal/cpu/scalar_half.h"

namespace tenon::neon {
namespace {

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

// scores[32] of one head; eight independent sums.
template <KvType kType>
inline void ComputeScores(const AttentionArgs& args, const float* query, const std::byte* keys,
                          float* scores) {
  float32x4_t acc[kSlotVectors];
  for (float32x4_t& sum : acc)
    sum = vdupq_n_f32(0.0f);
  for (int64_t d = 0; d < args.head_dim; ++d) {
    for (int v = 0; v < kSlotVectors; ++v) {
      const float32x4_t key = LoadKv<kType>(keys, d * kKvBlockTokens + v * kLanes);
      acc[v] = vfmaq_n_f32(acc[v], key, query[d]);
    }
  }
  for (int v = 0; v < kSlotVectors; ++v)
    vst1q_f32(scores + v * kLanes, ScaleScores(args, acc[v]));
}

// out[d..d+4*kVectors) = out * correction + sum over the span's p * value.
template <KvType kType, int kVectors>
inline void AddValues(const BlockSpan& span, const float* p, float correction, int64_t head_dim,
                      int64_t d, float* out) {
  float32x4_t acc[kVectors];
  for (int v = 0; v < kVectors; ++v)
    acc[v] = vmulq_n_f32(vld1q_f32(out + d + v * kLanes), correction);
  for (int64_t j = span.first; j < span.last; ++j) {
    for (int v = 0; v < kVectors; ++v) {
      const float32x4_t values = LoadKv<kType>(span.values, j * head_dim + d + v * kLanes);
      acc[v] = vfmaq_n_f32(acc[v], values, p[j]);
    }
  }
  for (int v = 0; v < kVectors; ++v)
    vst1q_f32(out + d + v * kLanes, acc[v]);
}

// Eight independent sums of values; head sizes are multiples of 8, so the rest is in pairs.
template <KvType kType>
inline void AddBlock(const AttentionArgs& args, const float* query, const BlockSpan& span,
                     HeadState* state, float* out) {
  float p[kKvBlockTokens];
  ComputeScores<kType>(args, query, span.keys, p);
  const float correction = UpdateSoftmax(span, state, p);
  int64_t d = 0;
  for (; d + 8 * kLanes <= args.head_dim; d += 8 * kLanes)
    AddValues<kType, 8>(span, p, correction, args.head_dim, d, out);
  for (; d < args.head_dim; d += 2 * kLanes)
    AddValues<kType, 2>(span, p, correction, args.head_dim, d, out);
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
  VisitBlocks<AddBlock<KvType::kF32>>(args);
}
void AttentionF16(const AttentionArgs& args) {
  VisitBlocks<AddBlock<KvType::kF16>>(args);
}
void AttentionBF16(const AttentionArgs& args) {
  VisitBlocks<AddBlock<KvType::kBF16>>(args);
}

}  // namespace tenon::neon
