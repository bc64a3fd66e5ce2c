#include "hal/cpu/avx512vnni/avx512vnni_kernels.h"
#include "hal/cpu/avx512vnni/vectors.h"
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

inline __m512 CapScores(__m512 scores, float softcap) {
  if (softcap == 0.0f)
    return scores;
  const __m512 one = _mm512_set1_ps(1.0f);
  const __m512 exponential = Exp(_mm512_mul_ps(scores, _mm512_set1_ps(2.0f / softcap)));
  const __m512 tail = _mm512_div_ps(one, _mm512_add_ps(exponential, one));
  return _mm512_fmadd_ps(_mm512_set1_ps(-2.0f * softcap), tail, _mm512_set1_ps(softcap));
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
  const __m512 scale = _mm512_set1_ps(args.scale);
  for (int h = 0; h < kHeads; ++h) {
    scores[h].low = CapScores(_mm512_mul_ps(scale, scores[h].low), args.softcap);
    scores[h].high = CapScores(_mm512_mul_ps(scale, scores[h].high), args.softcap);
  }
}

inline float MaxLane(__m512 lanes) {
  const __m256 eight =
      _mm256_max_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_shuffle_ps(four, four, 1)));
}

// Scores to weights p, written to p[32] (0 outside the span); returns the correction of what the
// head has so far.
inline float UpdateSoftmax(const Slots& scores, uint32_t seen, float* max, float* sum, float* p) {
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

// out[d..d+16*kVectors) of kHeads heads: out * correction + sum over the span's p * value.
template <KvType kType, int kHeads, int kVectors>
inline void AddValues(const AttentionArgs& args, const BlockSpan& span, const float* p,
                      const float* corrections, int64_t d, float* out) {
  __m512 acc[kHeads][kVectors];
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kVectors; ++v) {
      const __m512 before = _mm512_loadu_ps(out + h * args.head_dim + d + v * kLanes);
      acc[h][v] = _mm512_mul_ps(before, _mm512_set1_ps(corrections[h]));
    }
  }
  for (int64_t j = span.first; j < span.last; ++j) {
    for (int v = 0; v < kVectors; ++v) {
      const __m512 values = LoadKv<kType>(span.values, j * args.head_dim + d + v * kLanes);
      for (int h = 0; h < kHeads; ++h)
        acc[h][v] = _mm512_fmadd_ps(_mm512_set1_ps(p[h * kKvBlockTokens + j]), values, acc[h][v]);
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kVectors; ++v)
      _mm512_storeu_ps(out + h * args.head_dim + d + v * kLanes, acc[h][v]);
  }
}

// The last eight dimensions of a head size that is not a multiple of 16.
template <KvType kType, int kHeads>
inline void AddLastEight(const AttentionArgs& args, const BlockSpan& span, const float* p,
                         const float* corrections, int64_t d, float* out) {
  for (int h = 0; h < kHeads; ++h) {
    float* head_out = out + h * args.head_dim + d;
    __m512 acc = _mm512_mul_ps(_mm512_maskz_loadu_ps(FirstLanes(8), head_out),
                               _mm512_set1_ps(corrections[h]));
    for (int64_t j = span.first; j < span.last; ++j) {
      const __m512 values = LoadEightKv<kType>(span.values, j * args.head_dim + d);
      acc = _mm512_fmadd_ps(_mm512_set1_ps(p[h * kKvBlockTokens + j]), values, acc);
    }
    _mm512_mask_storeu_ps(head_out, FirstLanes(8), acc);
  }
}

template <KvType kType, int kHeads>
inline void AddBlock(const AttentionArgs& args, const float* queries, const BlockSpan& span,
                     HeadStates<kHeads>* states, float* out) {
  Slots scores[kHeads];
  ComputeScores<kType, kHeads>(args, queries, span.keys, scores);
  alignas(64) float p[kHeads * kKvBlockTokens];
  float corrections[kHeads];
  const uint32_t seen = (span.last == 32 ? ~0u : (1u << span.last) - 1u) & (~0u << span.first);
  for (int h = 0; h < kHeads; ++h) {
    corrections[h] =
        UpdateSoftmax(scores[h], seen, &states->max[h], &states->sum[h], p + h * kKvBlockTokens);
  }
  // Four to eight independent sums keep the FMA units busy.
  constexpr int kVectors = kHeads == 1 ? 4 : 2;
  int64_t d = 0;
  for (; d + kVectors * kLanes <= args.head_dim; d += kVectors * kLanes)
    AddValues<kType, kHeads, kVectors>(args, span, p, corrections, d, out);
  for (; d + kLanes <= args.head_dim; d += kLanes)
    AddValues<kType, kHeads, 1>(args, span, p, corrections, d, out);
  if (d < args.head_dim)
    AddLastEight<kType, kHeads>(args, span, p, corrections, d, out);
}

template <KvType kType, int kHeads>
void AttendHeads(const AttentionArgs& args, int64_t first_head) {
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
    AddBlock<kType, kHeads>(args, queries, SpanOf(args, block), &states, out);
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
