// Attention over a paged KV cache, and the writes to it.
//
// Scores: keys lie transposed, so the 32 keys of a block are four vectors and q[d] is broadcast.
// Values: lanes are head_dim, p[j] is broadcast. Two or three query heads share what is loaded and
// widened: that gives the eight independent chains of fma that two units with a latency of four
// need. A block is as long as a page, where the hardware's prefetch ends: the next block is asked
// for by the loops over this one.
#include "hal/cpu/avx2/avx2_kernels.h"
#include "hal/cpu/avx2/vector_math.h"
#include "hal/cpu/scalar_half.h"

namespace tenon::avx2 {
namespace {

constexpr int64_t kMaxHeadDim = 256;
constexpr int kKeyVectors = static_cast<int>(kKvBlockTokens / kLanes);

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

// The keys of one block that are seen: slots [first, last).
struct BlockSpan {
  const std::byte* keys;
  const std::byte* values;
  int64_t first;
  int64_t last;
  int64_t next;  // bytes from this block to the one that is read after it
};

// The cache line at `at`, and the one after it where a step reads two.
template <KvType kType>
[[gnu::always_inline]] inline void Prefetch(const std::byte* at) {
  _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0);
  if constexpr (kType == KvType::kF32) {
    _mm_prefetch(reinterpret_cast<const char*>(at + 64), _MM_HINT_T0);
  }
}

BlockSpan SpanOf(const AttentionArgs& args, int64_t block) {
  const int64_t start = block * kKvBlockTokens;
  const int64_t offset = args.block_table[block] * args.block_stride;
  const int64_t first = args.begin > start ? args.begin - start : 0;
  const int64_t left = args.end - start;
  const int64_t after = left > kKvBlockTokens ? block + 1 : block;
  return {args.keys + offset, args.values + offset, first,
          left < kKvBlockTokens ? left : kKvBlockTokens,
          (args.block_table[after] - args.block_table[block]) * args.block_stride};
}

// The running state of the online softmax of kHeads heads.
template <int kHeads>
struct HeadState {
  float max[kHeads];
  float sum[kHeads];
  float correction[kHeads];
  alignas(32) float p[kHeads][kKvBlockTokens];
  alignas(32) float out[kHeads][kMaxHeadDim];
};

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

__m256 CapScores(__m256 scores, float softcap) {
  if (softcap == 0.0f) {
    return scores;
  }
  const __m256 one = _mm256_set1_ps(1.0f);
  const __m256 power = Exp(_mm256_mul_ps(scores, _mm256_set1_ps(2.0f / softcap)));
  const __m256 tail = _mm256_div_ps(one, _mm256_add_ps(power, one));
  return _mm256_fmadd_ps(_mm256_set1_ps(-2.0f * softcap), tail, _mm256_set1_ps(softcap));
}

// Turns one head's dot products into probabilities relative to the new maximum. Slots outside the
// span may hold NaN: they leave here as 0, by masks alone.
template <int kHeads>
void Softmax(const AttentionArgs& args, const BlockSpan& span, const __m256* dots, int h,
             HeadState<kHeads>* state) {
  const __m256 outside = _mm256_set1_ps(-__builtin_inff());
  __m256 masks[kKeyVectors];
  __m256 scores[kKeyVectors];
  __m256 largest = _mm256_set1_ps(state->max[h]);
#pragma GCC unroll 8
  for (int v = 0; v < kKeyVectors; ++v) {
    masks[v] = _mm256_castsi256_ps(LaneMask(span.first - v * kLanes, span.last - v * kLanes));
    const __m256 scaled = _mm256_mul_ps(_mm256_set1_ps(args.scale), dots[v]);
    scores[v] = _mm256_blendv_ps(outside, CapScores(scaled, args.softcap), masks[v]);
    largest = _mm256_max_ps(scores[v], largest);
  }
  const float max = MaxLane(largest);
  __m256 p[kKeyVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kKeyVectors; ++v) {
    p[v] = _mm256_and_ps(masks[v], Exp(_mm256_sub_ps(scores[v], _mm256_set1_ps(max))));
    _mm256_store_ps(state->p[h] + v * kLanes, p[v]);
  }
  const float sum = HalvingSum(_mm256_add_ps(_mm256_add_ps(p[0], p[2]), _mm256_add_ps(p[1], p[3])));
  state->correction[h] = ExpScalar(state->max[h] - max);
  state->sum[h] = __builtin_fmaf(state->sum[h], state->correction[h], sum);
  state->max[h] = max;
}

// Adds the values to kVectors vectors of the outputs, from element d on.
template <KvType kType, int kHeads, int kVectors>
void AddValues(const BlockSpan& span, int64_t head_dim, int64_t d, HeadState<kHeads>* state) {
  __m256 acc[kHeads][kVectors];
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
    const __m256 correction = _mm256_set1_ps(state->correction[h]);
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
        const __m256 p = _mm256_broadcast_ss(state->p[h] + j);
        acc[h][v] = _mm256_fmadd_ps(p, value, acc[h][v]);
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
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
    Softmax<kHeads>(args, span, dots[h], h, state);
  }
  int64_t d = 0;
  for (; d + 4 * kLanes <= args.head_dim; d += 4 * kLanes) {
    AddValues<kType, kHeads, 4>(span, args.head_dim, d, state);
  }
  for (; d < args.head_dim; d += kLanes) {
    AddValues<kType, kHeads, 1>(span, args.head_dim, d, state);
  }
}

// Heads [head, head + kHeads).
template <KvType kType, int kHeads>
void AttendHeads(const AttentionArgs& args, int64_t head) {
  HeadState<kHeads> state;
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
    state.max[h] = -__builtin_inff();
    state.sum[h] = 0.0f;
    __builtin_memset(state.out[h], 0, static_cast<size_t>(args.head_dim) * sizeof(float));
  }
  const int64_t last = (args.end - 1) / kKvBlockTokens;
  for (int64_t block = args.begin / kKvBlockTokens; block <= last; ++block) {
    AddBlock<kType, kHeads>(args, args.query + head * args.head_dim, SpanOf(args, block), &state);
  }
#pragma GCC unroll 8
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
