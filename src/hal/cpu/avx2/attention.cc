// Attention over a paged KV cache, and the writes to it.
//
// Scores: keys lie transposed, so the 32 keys of a block are four vectors and q[d] is broadcast.
// Values: lanes are head_dim, p[j] is broadcast. Two or three query heads share what is loaded and
// widened: that gives the eight independent chains of fma that two units with a latency of four
// need. A block is as long as a page, where the hardware's prefetch ends: the next block is asked
// for by the loops over this one.
//
// Packed blocks (hal/kv_block.h) differ in how eight elements are loaded, and in that scales go
// into the query and into the probabilities, so that the inner loops see codes only.
#include "hal/cpu/avx2/avx2_kernels.h"
#include "hal/cpu/avx2/vector_math.h"
#include "hal/cpu/kv_seal.h"
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

// Rows of codes in a row of words.
constexpr int WordRows(KvType type) {
  return 32 / static_cast<int>(KvPlaneBits(type));
}

// Codes stay where they are in their words: what is left of a word under a mask is the code times
// 2^shift, as an integer and, exactly, as a float; the factor that goes with the code (query or
// probability) has been multiplied by 2^-shift. The last code of a word is shifted down instead, as
// integers are converted with a sign.
constexpr int CodeShift(KvType type, int row) {
  switch (type) {
    case KvType::kQ8:
      return row == 3 ? 0 : 8 * row;
    case KvType::kQ4:
      return row == 7 ? 0 : 4 * row;
    case KvType::kHier:  // bytes of two words made from both planes, even rows and odd ones
      return row >= 6 ? 0 : row / 2 * 8;
    default:  // looked up
      return 0;
  }
}

// 2^-CodeShift of the rows 0 to 7.
template <KvType kType>
[[gnu::always_inline]] inline __m256 CodeFactors() {
  const auto factor = [](int row) {
    return 1.0f / static_cast<float>(1u << CodeShift(kType, row % WordRows(kType)));
  };
  return _mm256_setr_ps(factor(0), factor(1), factor(2), factor(3), factor(4), factor(5), factor(6),
                        factor(7));
}

// The code of kBits bits in place `place` of each word, times 2^(kBits * place) unless it is the
// last one.
template <int kBits>
[[gnu::always_inline]] inline __m256 CodeInPlace(__m256i words, int place) {
  if (place == 32 / kBits - 1) {
    return _mm256_cvtepi32_ps(_mm256_srli_epi32(words, 32 - kBits));
  }
  const int32_t mask = ((1 << kBits) - 1) << (kBits * place);
  return _mm256_cvtepi32_ps(_mm256_and_si256(words, _mm256_set1_epi32(mask)));
}

// kNf4Codes[low nibble of each lane].
[[gnu::always_inline]] inline __m256 LookUpNf4(__m256i codes) {
  const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(kNf4Codes), codes);
  const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(kNf4Codes + 8), codes);
  const __m256i upper_half = _mm256_slli_epi32(codes, 28);
  return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(upper_half));
}

// kVectors vectors of words of a packed part.
template <KvType kType, int kVectors>
struct CodeWords {
  __m256i first[kVectors];
  __m256i second[kType == KvType::kHier ? kVectors : 1];  // kHier: the odd rows
};

template <KvType kType, int kVectors>
[[gnu::always_inline]] inline void LoadWords(const std::byte* words, int64_t low,
                                             CodeWords<kType, kVectors>* out) {
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    const auto* at = reinterpret_cast<const __m256i*>(words + 4 * kLanes * v);
    const __m256i upper = _mm256_loadu_si256(at);
    if constexpr (kType == KvType::kHier) {
      const auto* low_at = reinterpret_cast<const __m256i*>(words + low + 4 * kLanes * v);
      const __m256i lower = _mm256_loadu_si256(low_at);
      const __m256i nibbles = _mm256_set1_epi8(15);
      const __m256i even = _mm256_slli_epi32(_mm256_and_si256(upper, nibbles), 4);
      out->first[v] = _mm256_or_si256(even, _mm256_and_si256(lower, nibbles));
      const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(lower, 4), nibbles);
      out->second[v] = _mm256_or_si256(_mm256_andnot_si256(nibbles, upper), odd);
    } else {
      out->first[v] = upper;
    }
  }
}

// Codes of row `row` of the words, times 2^CodeShift.
template <KvType kType, int kVectors>
[[gnu::always_inline]] inline __m256 ShiftedCodes(const CodeWords<kType, kVectors>& words, int v,
                                                  int row) {
  if constexpr (kType == KvType::kQ8) {
    return CodeInPlace<8>(words.first[v], row);
  } else if constexpr (kType == KvType::kQ4) {
    return CodeInPlace<4>(words.first[v], row);
  } else if constexpr (kType == KvType::kHier) {
    return CodeInPlace<8>(row % 2 == 0 ? words.first[v] : words.second[v], row / 2);
  } else {
    return LookUpNf4(_mm256_srli_epi32(words.first[v], 4 * row));
  }
}

// Scales s and terms z (hal/kernel_set.h) of eight groups.
struct GroupScales {
  __m256 scale;
  __m256 term;
};

template <KvType kType>
[[gnu::always_inline]] inline GroupScales LoadScales(const std::byte* headers) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(headers));
  const __m128i middle = _mm_slli_epi16(_mm_and_si128(bits, _mm_set1_epi16(255)), 7);
  const __m256 scale = _mm256_cvtph_ps(middle);
  const __m256 zero = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_srai_epi16(bits, 8)));
  switch (kType) {
    case KvType::kQ8:
      return {scale, _mm256_fmadd_ps(zero, _mm256_set1_ps(8.0f), _mm256_set1_ps(-128.0f))};
    case KvType::kNf4:
      return {scale, _mm256_mul_ps(zero, _mm256_set1_ps(0.125f))};
    case KvType::kHier:
      return {_mm256_mul_ps(scale, _mm256_set1_ps(0.0625f)),
              _mm256_fmadd_ps(zero, _mm256_set1_ps(16.0f), _mm256_set1_ps(-8.0f))};
    default:
      return {scale, zero};
  }
}

void WidenF16(const std::byte* f16, int64_t count, float* out) {
  for (int64_t i = 0; i < count; i += kLanes) {
    _mm256_storeu_ps(out + i, LoadKv<KvType::kF16>(f16, i));
  }
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

// The two lines that four vectors of words are, of each plane.
template <KvType kType>
[[gnu::always_inline]] inline void PrefetchWords(const std::byte* at, int64_t low) {
  _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0);
  _mm_prefetch(reinterpret_cast<const char*>(at + 64), _MM_HINT_T0);
  if constexpr (kType == KvType::kHier) {
    _mm_prefetch(reinterpret_cast<const char*>(at + low), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(at + low + 64), _MM_HINT_T0);
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

// The heads' queries as a block's keys want them, and what their dot products start at.
template <int kHeads>
struct BlockQuery {
  alignas(32) float q[kHeads][kMaxHeadDim];
  float start[kHeads];
};

template <KvType kType, int kHeads>
void ScaleQuery(const AttentionArgs& args, const float* query, const std::byte* keys,
                BlockQuery<kHeads>* out) {
  const std::byte* headers = keys + KvHeaderOffset(kType, args.head_dim);
  __m256 lanes[kHeads];
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
    lanes[h] = _mm256_setzero_ps();
  }
  for (int64_t d = 0; d < args.head_dim; d += kLanes) {
    const GroupScales groups = LoadScales<kType>(headers + 2 * d);
#pragma GCC unroll 8
    for (int h = 0; h < kHeads; ++h) {
      const __m256 q = _mm256_mul_ps(_mm256_loadu_ps(query + h * args.head_dim + d), groups.scale);
      _mm256_store_ps(out->q[h] + d, _mm256_mul_ps(q, CodeFactors<kType>()));
      lanes[h] = _mm256_fmadd_ps(q, groups.term, lanes[h]);
    }
  }
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
    out->start[h] = HalvingSum(lanes[h]);
  }
}

// Dot products with all 32 keys of a block; slots outside the span hold anything.
template <KvType kType, int kHeads>
void FloatScores(const AttentionArgs& args, const float* query, const BlockSpan& span,
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

template <KvType kType, int kHeads>
void PackedScores(const AttentionArgs& args, const float* query, const BlockSpan& span,
                  __m256 (*scores)[kKeyVectors]) {
  BlockQuery<kHeads> scaled;
  ScaleQuery<kType, kHeads>(args, query, span.keys, &scaled);
  const int64_t low = KvLowKeysOffset(args.head_dim);
  constexpr int kRows = WordRows(kType);
  __m256 acc[kHeads][kKeyVectors];
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 8
    for (int v = 0; v < kKeyVectors; ++v) {
      acc[h][v] = _mm256_set1_ps(scaled.start[h]);
    }
  }
  for (int64_t d = 0; d < args.head_dim; d += WordRows(kType)) {
    const std::byte* at = span.keys + d / WordRows(kType) * kKvBlockTokens * 4;
    PrefetchWords<kType>(at + span.next, low);
    CodeWords<kType, kKeyVectors> words;
    LoadWords<kType, kKeyVectors>(at, low, &words);
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
      for (int v = 0; v < kKeyVectors; ++v) {
        const __m256 key = ShiftedCodes<kType, kKeyVectors>(words, v, row);
#pragma GCC unroll 4
        for (int h = 0; h < kHeads; ++h) {
          const __m256 q = _mm256_broadcast_ss(scaled.q[h] + d + row);
          acc[h][v] = _mm256_fmadd_ps(q, key, acc[h][v]);
        }
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

template <KvType kType, int kHeads>
void Scores(const AttentionArgs& args, const float* query, const BlockSpan& span,
            __m256 (*scores)[kKeyVectors]) {
  if constexpr (IsPackedKv(kType)) {
    PackedScores<kType, kHeads>(args, query, span, scores);
  } else {
    FloatScores<kType, kHeads>(args, query, span, scores);
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

// What weighs the values of one group of channels, and what their sums start at.
template <int kHeads>
struct GroupWeights {
  alignas(32) float p[kHeads][kKvBlockTokens];
  float start[kHeads];
};

template <KvType kType, int kHeads>
void ScaleWeights(const HeadState<kHeads>& state, const std::byte* headers,
                  GroupWeights<kHeads>* out) {
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
    __m256 products[kKeyVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kKeyVectors; ++v) {
      const GroupScales groups = LoadScales<kType>(headers + 2 * v * kLanes);
      const __m256 p = _mm256_mul_ps(_mm256_load_ps(state.p[h] + v * kLanes), groups.scale);
      _mm256_store_ps(out->p[h] + v * kLanes, _mm256_mul_ps(p, CodeFactors<kType>()));
      products[v] = _mm256_mul_ps(p, groups.term);
    }
    out->start[h] = HalvingSum(_mm256_add_ps(_mm256_add_ps(products[0], products[2]),
                                             _mm256_add_ps(products[1], products[3])));
  }
}

// Adds a block's values to kVectors vectors of sums: those of the span, or all of a packed block,
// where `p` is 0 outside the span.
template <KvType kType, int kHeads, int kVectors>
[[gnu::always_inline]] inline void AddRows(const BlockSpan& span, const float (*p)[kKvBlockTokens],
                                           int64_t head_dim, int64_t d,
                                           __m256 (&acc)[kHeads][kVectors]) {
  if constexpr (!IsPackedKv(kType)) {
    for (int64_t j = span.first; j < span.last; ++j) {
      Prefetch<kType>(span.values + span.next + (j * head_dim + d) * KvTypeBytes(kType));
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const __m256 value = LoadKv<kType>(span.values, j * head_dim + d + v * kLanes);
#pragma GCC unroll 4
        for (int h = 0; h < kHeads; ++h) {
          acc[h][v] = _mm256_fmadd_ps(_mm256_broadcast_ss(p[h] + j), value, acc[h][v]);
        }
      }
    }
    return;
  }
  const int64_t low = KvLowValuesOffset(head_dim);
  constexpr int kRows = WordRows(kType);
  for (int64_t j = 0; j < kKvBlockTokens; j += WordRows(kType)) {
    const std::byte* at = span.values + (j / WordRows(kType) * head_dim + d) * 4;
    PrefetchWords<kType>(at + span.next, low);
    CodeWords<kType, kVectors> words;
    LoadWords<kType, kVectors>(at, low, &words);
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const __m256 value = ShiftedCodes<kType, kVectors>(words, v, row);
#pragma GCC unroll 4
        for (int h = 0; h < kHeads; ++h) {
          acc[h][v] = _mm256_fmadd_ps(_mm256_broadcast_ss(p[h] + j + row), value, acc[h][v]);
        }
      }
    }
  }
}

// Adds the values, weighed by `p`, to kVectors vectors of the outputs, from element d on.
template <KvType kType, int kHeads, int kVectors>
void AddValues(const BlockSpan& span, const float (*p)[kKvBlockTokens], const float* start,
               int64_t head_dim, int64_t d, HeadState<kHeads>* state) {
  __m256 acc[kHeads][kVectors];
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
    const __m256 correction = _mm256_set1_ps(state->correction[h]);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const __m256 before = _mm256_load_ps(state->out[h] + d + v * kLanes);
      acc[h][v] = IsPackedKv(kType) ? _mm256_fmadd_ps(before, correction, _mm256_set1_ps(start[h]))
                                    : _mm256_mul_ps(before, correction);
    }
  }
  AddRows<kType, kHeads, kVectors>(span, p, head_dim, d, acc);
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      _mm256_store_ps(state->out[h] + d + v * kLanes, acc[h][v]);
    }
  }
}

// Adds the values of elements [begin, end), all of one group, weighed by `p`.
template <KvType kType, int kHeads>
void AddGroup(const BlockSpan& span, const float (*p)[kKvBlockTokens], const float* start,
              const AttentionArgs& args, int64_t begin, int64_t end, HeadState<kHeads>* state) {
  int64_t d = begin;
  for (; d + 4 * kLanes <= end; d += 4 * kLanes) {
    AddValues<kType, kHeads, 4>(span, p, start, args.head_dim, d, state);
  }
  for (; d < end; d += kLanes) {
    AddValues<kType, kHeads, 1>(span, p, start, args.head_dim, d, state);
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
  if constexpr (IsPackedKv(kType)) {
    const std::byte* headers = span.values + KvHeaderOffset(kType, args.head_dim);
    GroupWeights<kHeads> weights;
    for (int64_t d = 0; d < args.head_dim; d += kKvValueGroup) {
      ScaleWeights<kType, kHeads>(*state, headers + 2 * (d / kKvValueGroup) * kKvBlockTokens,
                                  &weights);
      const int64_t end = d + kKvValueGroup < args.head_dim ? d + kKvValueGroup : args.head_dim;
      AddGroup<kType, kHeads>(span, weights.p, weights.start, args, d, end, state);
    }
  } else {
    AddGroup<kType, kHeads>(span, state->p, nullptr, args, 0, args.head_dim, state);
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
void AttentionQ8(const AttentionArgs& args) {
  Attention<KvType::kQ8>(args);
}
void AttentionQ4(const AttentionArgs& args) {
  Attention<KvType::kQ4>(args);
}
void AttentionNf4(const AttentionArgs& args) {
  Attention<KvType::kNf4>(args);
}
void AttentionHier(const AttentionArgs& args) {
  Attention<KvType::kHier>(args);
}
void KvSealQ8(const KvSealArgs& args) {
  SealBlock<KvType::kQ8, WidenF16>(args);
}
void KvSealQ4(const KvSealArgs& args) {
  SealBlock<KvType::kQ4, WidenF16>(args);
}
void KvSealNf4(const KvSealArgs& args) {
  SealBlock<KvType::kNf4, WidenF16>(args);
}
void KvSealHier(const KvSealArgs& args) {
  SealBlock<KvType::kHier, WidenF16>(args);
}

}  // namespace tenon::avx2
