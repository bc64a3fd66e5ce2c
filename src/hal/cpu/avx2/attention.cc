// Attention over a paged KV cache, and the writes to it.
//
// Scores: keys lie transposed, so the 32 keys of a block are four vectors and q[d] is broadcast.
// Values: lanes are head_dim, p[j] is broadcast. Two or three query heads share what is loaded and
// widened: that gives the eight independent chains of fma that two units with a latency of four
// need. A block is as long as a page, where the hardware's prefetch ends: the next block is asked
// for by the loops over this one. Packed blocks: packed_attention.cc.
#include "hal/cpu/avx2/attention_parts.h"
#include "hal/cpu/avx2/avx2_kernels.h"
#include "hal/cpu/scalar_half.h"

namespace tenon::avx2 {
namespace {

// Eight elements from index `index` on.
template <KvType kType>
__m256 LoadKv(const std::byte* base, int64_t index) {
  const std::byte* at = base + index * KvTypeBytes(kType);
  if constexpr (kType == KvType::kF32) {
    return LoadF32(at);
  }
  return kType == KvType::kF16 ? LoadF16(at) : LoadBF16(at);
}

// Eight floats as 16-bit bits.
template <KvType kType>
void ConvertEight(const float* x, uint16_t* out) {
  if constexpr (kType == KvType::kF16) {
    const __m128i bits = _mm256_cvtps_ph(_mm256_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), bits);
    return;
  }
  for (int i = 0; i < kLanes; ++i) {
    out[i] = ScalarF32ToBF16(x[i]);
  }
}

template <KvType kType>
void KvStore16(const KvStoreArgs& args) {
  uint16_t bits[kLanes];
  for (int64_t d = 0; d < args.head_dim; d += kLanes) {
    ConvertEight<kType>(args.value + d, bits);
    __builtin_memcpy(args.value_block + (args.slot * args.head_dim + d) * 2, bits, sizeof(bits));
    ConvertEight<kType>(args.key + d, bits);
    for (int64_t i = 0; i < kLanes; ++i) {
      __builtin_memcpy(args.key_block + ((d + i) * kKvBlockTokens + args.slot) * 2, bits + i, 2);
    }
  }
}

// The cache line at `at`, and the one after it where a step reads two.
template <KvType kType>
[[gnu::always_inline]] inline void Prefetch(const std::byte* at) {
  _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0);
  if constexpr (kType == KvType::kF32) {
    _mm_prefetch(reinterpret_cast<const char*>(at + 64), _MM_HINT_T0);
  }
}

// Dot products with all 32 keys of a block; slots outside the span hold anything.
template <KvType kType, int kHeads>
void Scores(const AttentionArgs& args, const float* query, const BlockSpan& span,
            __m256 (*scores)[kKeyVectors]) {
  const std::byte* keys = span.keys;
  __m256 acc[kHeads][kKeyVectors];
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 8
    for (int v = 0; v < kKeyVectors; ++v) {
      acc[h][v] = _mm256_setzero_ps();
    }
  }
  for (int64_t d = 0; d < args.head_dim; ++d) {
    Prefetch<kType>(keys + span.next + d * kKvBlockTokens * KvTypeBytes(kType));
#pragma GCC unroll 4
    for (int v = 0; v < kKeyVectors; ++v) {
      const __m256 key = LoadKv<kType>(keys, d * kKvBlockTokens + v * kLanes);
#pragma GCC unroll 4
      for (int h = 0; h < kHeads; ++h) {
        const __m256 q = _mm256_broadcast_ss(query + h * args.head_dim + d);
        acc[h][v] = _mm256_fmadd_ps(q, key, acc[h][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 8
    for (int v = 0; v < kKeyVectors; ++v) {
      scores[h][v] = acc[h][v];
    }
  }
}

// The probabilities of a block's keys, and what corrects the outputs so far.
template <int kHeads>
struct BlockWeights {
  alignas(32) float p[kHeads][kKvBlockTokens];
  float correction[kHeads];
};

// Adds the span's values, weighed by the probabilities, to kVectors vectors of the outputs, from
// element d on.
template <KvType kType, int kHeads, int kVectors>
void AddValues(const BlockSpan& span, const BlockWeights<kHeads>& weights, int64_t head_dim,
               int64_t d, HeadState<kHeads>* state) {
  __m256 acc[kHeads][kVectors];
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
    const __m256 correction = _mm256_set1_ps(weights.correction[h]);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      acc[h][v] = _mm256_mul_ps(_mm256_load_ps(state->out[h] + d + v * kLanes), correction);
    }
  }
  for (int64_t j = span.first; j < span.last; ++j) {
    Prefetch<kType>(span.values + span.next + (j * head_dim + d) * KvTypeBytes(kType));
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __m256 value = LoadKv<kType>(span.values, j * head_dim + d + v * kLanes);
#pragma GCC unroll 4
      for (int h = 0; h < kHeads; ++h) {
        acc[h][v] = _mm256_fmadd_ps(_mm256_broadcast_ss(weights.p[h] + j), value, acc[h][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      _mm256_store_ps(state->out[h] + d + v * kLanes, acc[h][v]);
    }
  }
}

template <KvType kType, int kHeads>
void AddBlock(const AttentionArgs& args, const float* query, const BlockSpan& span,
              HeadState<kHeads>* state) {
  __m256 dots[kHeads][kKeyVectors];
  Scores<kType, kHeads>(args, query, span, dots);
  BlockWeights<kHeads> weights;
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
    ScaleScores(args, span, dots[h], dots[h]);
    const float max = MaxScore(dots[h], state->max[h]);
    weights.correction[h] = Softmax<kHeads>(dots[h], max, h, state, weights.p[h]);
  }
  int64_t d = 0;
  for (; d + 4 * kLanes <= args.head_dim; d += 4 * kLanes) {
    AddValues<kType, kHeads, 4>(span, weights, args.head_dim, d, state);
  }
  for (; d < args.head_dim; d += kLanes) {
    AddValues<kType, kHeads, 1>(span, weights, args.head_dim, d, state);
  }
}

// Heads [head, head + kHeads).
template <KvType kType, int kHeads>
void AttendHeads(const AttentionArgs& args, int64_t head) {
  HeadState<kHeads> state;
  BeginHeads<kHeads>(args, &state);
  const int64_t last = (args.end - 1) / kKvBlockTokens;
  for (int64_t block = args.begin / kKvBlockTokens; block <= last; ++block) {
    AddBlock<kType, kHeads>(args, args.query + head * args.head_dim, SpanOf(args, block), &state);
  }
  StoreHeads<kHeads>(args, head, state);
}

template <KvType kType>
void Attention(const AttentionArgs& args) {
  int64_t head = 0;
  for (int64_t left = args.heads; left > 4 || left == 3; left -= 3, head += 3) {
    AttendHeads<kType, 3>(args, head);
  }
  for (; head + 2 <= args.heads; head += 2) {
    AttendHeads<kType, 2>(args, head);
  }
  if (head < args.heads) {
    AttendHeads<kType, 1>(args, head);
  }
}

}  // namespace

void KvStoreF32(const KvStoreArgs& args) {
  const size_t bytes = static_cast<size_t>(args.head_dim) * sizeof(float);
  __builtin_memcpy(args.value_block + args.slot * args.head_dim * 4, args.value, bytes);
  for (int64_t d = 0; d < args.head_dim; ++d) {
    __builtin_memcpy(args.key_block + (d * kKvBlockTokens + args.slot) * 4, args.key + d, 4);
  }
}

void KvStoreF16(const KvStoreArgs& args) {
  KvStore16<KvType::kF16>(args);
}
void KvStoreBF16(const KvStoreArgs& args) {
  KvStore16<KvType::kBF16>(args);
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

}  // namespace tenon::avx2
