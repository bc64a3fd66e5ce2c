// Attention over blocks of float types of the KV cache, and the writes to it. Packed blocks:
// packed_attention.cc.
#include "hal/cpu/avx512vnni/attention_parts.h"
#include "hal/cpu/avx512vnni/avx512vnni_kernels.h"
#include "hal/cpu/scalar_half.h"

namespace tenon::avx512vnni {
namespace {

template <KvType kType>
inline __m512 LoadKv(const std::byte* base, int64_t index) {
  const std::byte* at = base + index * KvTypeBytes(kType);
  if constexpr (kType == KvType::kF32)
    return _mm512_loadu_ps(reinterpret_cast<const float*>(at));
  else if constexpr (kType == KvType::kF16)
    return LoadHalfs(at);
  else
    return LoadBrains(at);
}

// Eight elements in the lower half, zeros above.
template <KvType kType>
inline __m512 LoadEightKv(const std::byte* base, int64_t index) {
  const std::byte* at = base + index * KvTypeBytes(kType);
  if constexpr (kType == KvType::kF32) {
    return _mm512_maskz_loadu_ps(FirstLanes(8), reinterpret_cast<const float*>(at));
  } else {
    const __m256i bits =
        _mm256_zextsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
    return kType == KvType::kF16 ? WidenHalf(bits) : WidenBrain(bits);
  }
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

template <KvType kType, int kHeads>
inline void ComputeScores(const AttentionArgs& args, const float* queries, const std::byte* keys,
                          Slots* scores) {
  for (int h = 0; h < kHeads; ++h)
    scores[h] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
  for (int64_t d = 0; d < args.head_dim; ++d) {
    const __m512 low = LoadKv<kType>(keys, d * kKvBlockTokens);
    const __m512 high = LoadKv<kType>(keys, d * kKvBlockTokens + kLanes);
    for (int h = 0; h < kHeads; ++h) {
      const __m512 query = _mm512_set1_ps(queries[h * args.head_dim + d]);
      scores[h].low = _mm512_fmadd_ps(query, low, scores[h].low);
      scores[h].high = _mm512_fmadd_ps(query, high, scores[h].high);
    }
  }
  for (int h = 0; h < kHeads; ++h)
    scores[h] = ScaleScores(args, scores[h]);
}

// out[d..d+16*kVectors) of kHeads heads: out * correction + sum over the span's p * value.
template <KvType kType, int kHeads, int kVectors>
inline void AddValues(const AttentionArgs& args, const BlockSpan& span,
                      const BlockWeights<kHeads>& weights, int64_t d, float* out) {
  __m512 acc[kHeads][kVectors];
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kVectors; ++v) {
      const __m512 before = _mm512_loadu_ps(out + h * args.head_dim + d + v * kLanes);
      acc[h][v] = _mm512_mul_ps(before, _mm512_set1_ps(weights.corrections[h]));
    }
  }
  for (int64_t j = span.first; j < span.last; ++j) {
    for (int v = 0; v < kVectors; ++v) {
      const __m512 values = LoadKv<kType>(span.values, j * args.head_dim + d + v * kLanes);
      for (int h = 0; h < kHeads; ++h) {
        const __m512 p = _mm512_set1_ps(weights.p[h * kKvBlockTokens + j]);
        acc[h][v] = _mm512_fmadd_ps(p, values, acc[h][v]);
      }
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kVectors; ++v)
      _mm512_storeu_ps(out + h * args.head_dim + d + v * kLanes, acc[h][v]);
  }
}

// The last eight dimensions of a head size that is not a multiple of 16.
template <KvType kType, int kHeads>
inline void AddLastEight(const AttentionArgs& args, const BlockSpan& span,
                         const BlockWeights<kHeads>& weights, int64_t d, float* out) {
  for (int h = 0; h < kHeads; ++h) {
    float* head_out = out + h * args.head_dim + d;
    __m512 acc = _mm512_mul_ps(_mm512_maskz_loadu_ps(FirstLanes(8), head_out),
                               _mm512_set1_ps(weights.corrections[h]));
    for (int64_t j = span.first; j < span.last; ++j) {
      const __m512 values = LoadEightKv<kType>(span.values, j * args.head_dim + d);
      const __m512 p = _mm512_set1_ps(weights.p[h * kKvBlockTokens + j]);
      acc = _mm512_fmadd_ps(p, values, acc);
    }
    _mm512_mask_storeu_ps(head_out, FirstLanes(8), acc);
  }
}

template <KvType kType, int kHeads>
inline void AddBlock(const AttentionArgs& args, const float* queries, const BlockSpan& span,
                     HeadStates<kHeads>* states, float* out) {
  Slots scores[kHeads];
  ComputeScores<kType, kHeads>(args, queries, span.keys, scores);
  BlockWeights<kHeads> weights;
  UpdateHeads<kHeads>(span, scores, states, &weights);
  // Four to eight independent sums keep the FMA units busy.
  constexpr int kVectors = kHeads == 1 ? 4 : 2;
  int64_t d = 0;
  for (; d + kVectors * kLanes <= args.head_dim; d += kVectors * kLanes)
    AddValues<kType, kHeads, kVectors>(args, span, weights, d, out);
  for (; d + kLanes <= args.head_dim; d += kLanes)
    AddValues<kType, kHeads, 1>(args, span, weights, d, out);
  if (d < args.head_dim)
    AddLastEight<kType, kHeads>(args, span, weights, d, out);
}

template <KvType kType, int kHeads>
void AttendHeads(const AttentionArgs& args, int64_t first_head) {
  VisitBlocks<kHeads, AddBlock<kType, kHeads>>(args, first_head);
}

// Heads in groups of four, so that a key or value is loaded and widened once for all of them.
template <KvType kType>
void Attention(const AttentionArgs& args) {
  int64_t h = 0;
  for (; h + 4 <= args.heads; h += 4)
    AttendHeads<kType, 4>(args, h);
  for (; h + 2 <= args.heads; h += 2)
    AttendHeads<kType, 2>(args, h);
  for (; h < args.heads; ++h)
    AttendHeads<kType, 1>(args, h);
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

}  // namespace tenon::avx512vnni
