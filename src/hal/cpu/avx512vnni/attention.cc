#include "hal/cpu/avx512vnni/avx512vnni_kernels.h"
#include "hal/cpu/avx512vnni/vectors.h"
#include "hal/cpu/kv_seal.h"
#include "hal/cpu/scalar_half.h"

namespace tenon::avx512vnni {
namespace {

constexpr int64_t kMaxHeadDim = 256;

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

// The codes of row `row` in words of a packed part, and of its second plane.
template <KvType kType>
inline __m512 CodesOf(__m512i words, __m512i low_words, int64_t row) {
  constexpr int kBits = static_cast<int>(KvPlaneBits(kType));
  const __m512i mask = _mm512_set1_epi32((1 << kBits) - 1);
  const __m512i shift = _mm512_set1_epi32(static_cast<int>(row) * kBits);
  const __m512i codes = _mm512_and_si512(_mm512_srlv_epi32(words, shift), mask);
  if constexpr (kType == KvType::kNf4) {
    return _mm512_permutexvar_ps(codes, _mm512_loadu_ps(kNf4Codes));
  } else if constexpr (kType == KvType::kHier) {
    const __m512i low = _mm512_and_si512(_mm512_srlv_epi32(low_words, shift), mask);
    return _mm512_cvtepi32_ps(_mm512_or_si512(_mm512_slli_epi32(codes, 4), low));
  } else {
    return _mm512_cvtepi32_ps(codes);
  }
}

inline __m512i LoadSixteenWords(const std::byte* at) {
  return _mm512_loadu_si512(at);
}
// Eight words in the lower half, anything above.
inline __m512i LoadEightWords(const std::byte* at) {
  return _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}

// Elements of row `row` from lane `lane` on: of float types row after row, of packed ones as words
// of `count` lanes, which kLoad loads; their second plane lies `low` bytes from the first.
template <KvType kType, __m512i (*kLoad)(const std::byte*) = LoadSixteenWords>
inline __m512 LoadElements(const std::byte* part, int64_t low, int64_t row, int64_t count,
                           int64_t lane) {
  if constexpr (!IsPackedKv(kType)) {
    return LoadKv<kType>(part, row * count + lane);
  } else {
    constexpr int64_t kRows = 32 / KvPlaneBits(kType);
    const std::byte* at = part + (row / kRows * count + lane) * 4;
    const __m512i words = kLoad(at);
    return CodesOf<kType>(words, kType == KvType::kHier ? kLoad(at + low) : words, row % kRows);
  }
}

// Scales s and terms z (hal/kernel_set.h) of 8 or 16 groups.
struct EightScales {
  __m256 scale;
  __m256 term;
};
struct GroupScales {
  __m512 scale;
  __m512 term;
};

// z = factor * zero + offset, s = scale * share.
struct HeaderTerms {
  float share;
  float factor;
  float offset;
};
constexpr HeaderTerms TermsOf(KvType type) {
  switch (type) {
    case KvType::kQ8:
      return {1.0f, 8.0f, -128.0f};
    case KvType::kNf4:
      return {1.0f, 0.125f, 0.0f};
    case KvType::kHier:
      return {0.0625f, 16.0f, -8.0f};
    default:
      return {1.0f, 1.0f, 0.0f};
  }
}

template <KvType kType>
inline EightScales LoadEightScales(const std::byte* headers) {
  constexpr HeaderTerms kTerms = TermsOf(kType);
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(headers));
  const __m128i middle = _mm_slli_epi16(_mm_and_si128(bits, _mm_set1_epi16(255)), 7);
  const __m256 zero = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_srai_epi16(bits, 8)));
  return {_mm256_mul_ps(_mm256_cvtph_ps(middle), _mm256_set1_ps(kTerms.share)),
          _mm256_fmadd_ps(zero, _mm256_set1_ps(kTerms.factor), _mm256_set1_ps(kTerms.offset))};
}

template <KvType kType>
inline GroupScales LoadScales(const std::byte* headers) {
  constexpr HeaderTerms kTerms = TermsOf(kType);
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(headers));
  const __m256i middle = _mm256_slli_epi16(_mm256_and_si256(bits, _mm256_set1_epi16(255)), 7);
  // The signed upper byte: its sign bit flipped, it is 128 more.
  const __m512i upper = _mm512_srli_epi32(_mm512_cvtepu16_epi32(bits), 8);
  const __m512i sign = _mm512_set1_epi32(128);
  const __m512 zero = _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_xor_si512(upper, sign), sign));
  return {_mm512_mul_ps(_mm512_cvtph_ps(middle), _mm512_set1_ps(kTerms.share)),
          _mm512_fmadd_ps(zero, _mm512_set1_ps(kTerms.factor), _mm512_set1_ps(kTerms.offset))};
}

void WidenF16(const std::byte* f16, int64_t count, float* out) {
  for (int64_t i = 0; i < count; i += 8) {
    const auto* at = reinterpret_cast<const __m128i*>(f16 + 2 * i);
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(at)));
  }
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
inline __m512 LoadEightElements(const std::byte* part, int64_t low, int64_t row, int64_t count,
                                int64_t lane) {
  if constexpr (IsPackedKv(kType))
    return LoadElements<kType, LoadEightWords>(part, low, row, count, lane);
  else
    return LoadEightKv<kType>(part, row * count + lane);
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

// Of a packed block all values are added, unseen ones by 0.
template <KvType kType>
inline int64_t FirstRow(const BlockSpan& span) {
  return IsPackedKv(kType) ? 0 : span.first;
}
template <KvType kType>
inline int64_t LastRow(const BlockSpan& span) {
  return IsPackedKv(kType) ? kKvBlockTokens : span.last;
}

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

// The heads' queries as a packed block's keys want them, and what their dot products start at.
template <int kHeads>
struct BlockQuery {
  float q[kHeads][kMaxHeadDim];
  float start[kHeads];
};

inline float HalvingSumOfEight(__m256 lanes) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

template <KvType kType, int kHeads>
inline void ScaleQuery(const AttentionArgs& args, const float* queries, const std::byte* keys,
                       BlockQuery<kHeads>* out) {
  const std::byte* headers = keys + KvHeaderOffset(kType, args.head_dim);
  __m256 sums[kHeads];
  for (int h = 0; h < kHeads; ++h)
    sums[h] = _mm256_setzero_ps();
  for (int64_t d = 0; d < args.head_dim; d += 8) {
    const EightScales groups = LoadEightScales<kType>(headers + 2 * d);
    for (int h = 0; h < kHeads; ++h) {
      const __m256 query = _mm256_loadu_ps(queries + h * args.head_dim + d);
      const __m256 scaled = _mm256_mul_ps(query, groups.scale);
      _mm256_storeu_ps(out->q[h] + d, scaled);
      sums[h] = _mm256_fmadd_ps(scaled, groups.term, sums[h]);
    }
  }
  for (int h = 0; h < kHeads; ++h)
    out->start[h] = HalvingSumOfEight(sums[h]);
}

// Queries lie `stride` floats apart; dot products begin at `start`, or at 0 where it is null.
template <KvType kType, int kHeads>
inline void ScoreKeys(const AttentionArgs& args, const float* queries, int64_t stride,
                      const float* start, const std::byte* keys, Slots* scores) {
  const int64_t plane = KvLowKeysOffset(args.head_dim);
  for (int h = 0; h < kHeads; ++h) {
    const __m512 first = _mm512_set1_ps(start == nullptr ? 0.0f : start[h]);
    scores[h] = {first, first};
  }
  for (int64_t d = 0; d < args.head_dim; ++d) {
    const __m512 low = LoadElements<kType>(keys, plane, d, kKvBlockTokens, 0);
    const __m512 high = LoadElements<kType>(keys, plane, d, kKvBlockTokens, kLanes);
    for (int h = 0; h < kHeads; ++h) {
      const __m512 query = _mm512_set1_ps(queries[h * stride + d]);
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

template <KvType kType, int kHeads>
inline void ComputeScores(const AttentionArgs& args, const float* queries, const std::byte* keys,
                          Slots* scores) {
  if constexpr (IsPackedKv(kType)) {
    BlockQuery<kHeads> scaled;
    ScaleQuery<kType, kHeads>(args, queries, keys, &scaled);
    ScoreKeys<kType, kHeads>(args, scaled.q[0], kMaxHeadDim, scaled.start, keys, scores);
  } else {
    ScoreKeys<kType, kHeads>(args, queries, args.head_dim, nullptr, keys, scores);
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

// What weighs a group's values, and what goes into their sums first.
template <int kHeads>
struct GroupWeights {
  alignas(64) float p[kHeads * kKvBlockTokens];
  float corrections[kHeads];
  float starts[kHeads];  // packed types
};

// The weights of a packed group from those of the block.
template <KvType kType, int kHeads>
inline void ScaleWeights(const GroupWeights<kHeads>& block, const std::byte* headers,
                         GroupWeights<kHeads>* out) {
  const GroupScales low = LoadScales<kType>(headers);
  const GroupScales high = LoadScales<kType>(headers + 2 * kLanes);
  for (int h = 0; h < kHeads; ++h) {
    const float* p = block.p + h * kKvBlockTokens;
    const __m512 p_low = _mm512_mul_ps(_mm512_loadu_ps(p), low.scale);
    const __m512 p_high = _mm512_mul_ps(_mm512_loadu_ps(p + kLanes), high.scale);
    _mm512_storeu_ps(out->p + h * kKvBlockTokens, p_low);
    _mm512_storeu_ps(out->p + h * kKvBlockTokens + kLanes, p_high);
    out->starts[h] =
        HalvingSum(_mm512_add_ps(_mm512_mul_ps(p_low, low.term), _mm512_mul_ps(p_high, high.term)));
    out->corrections[h] = block.corrections[h];
  }
}

template <KvType kType>
inline __m512 StartOfSum(__m512 before, float correction, float start) {
  if constexpr (IsPackedKv(kType))
    return _mm512_fmadd_ps(before, _mm512_set1_ps(correction), _mm512_set1_ps(start));
  else
    return _mm512_mul_ps(before, _mm512_set1_ps(correction));
}

// out[d..d+16*kVectors) of kHeads heads: out * correction + sum over the span's p * value.
template <KvType kType, int kHeads, int kVectors>
inline void AddValues(const AttentionArgs& args, const BlockSpan& span,
                      const GroupWeights<kHeads>& weights, int64_t d, float* out) {
  const int64_t plane = KvLowValuesOffset(args.head_dim);
  __m512 acc[kHeads][kVectors];
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kVectors; ++v) {
      const __m512 before = _mm512_loadu_ps(out + h * args.head_dim + d + v * kLanes);
      acc[h][v] = StartOfSum<kType>(before, weights.corrections[h], weights.starts[h]);
    }
  }
  for (int64_t j = FirstRow<kType>(span); j < LastRow<kType>(span); ++j) {
    for (int v = 0; v < kVectors; ++v) {
      const __m512 values =
          LoadElements<kType>(span.values, plane, j, args.head_dim, d + v * kLanes);
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
                         const GroupWeights<kHeads>& weights, int64_t d, float* out) {
  const int64_t plane = KvLowValuesOffset(args.head_dim);
  for (int h = 0; h < kHeads; ++h) {
    float* head_out = out + h * args.head_dim + d;
    __m512 acc = StartOfSum<kType>(_mm512_maskz_loadu_ps(FirstLanes(8), head_out),
                                   weights.corrections[h], weights.starts[h]);
    for (int64_t j = FirstRow<kType>(span); j < LastRow<kType>(span); ++j) {
      const __m512 values = LoadEightElements<kType>(span.values, plane, j, args.head_dim, d);
      const __m512 p = _mm512_set1_ps(weights.p[h * kKvBlockTokens + j]);
      acc = _mm512_fmadd_ps(p, values, acc);
    }
    _mm512_mask_storeu_ps(head_out, FirstLanes(8), acc);
  }
}

// Dimensions [d, end), all of one group.
template <KvType kType, int kHeads>
inline void AddGroup(const AttentionArgs& args, const BlockSpan& span,
                     const GroupWeights<kHeads>& weights, int64_t d, int64_t end, float* out) {
  // Four to eight independent sums keep the FMA units busy.
  constexpr int kVectors = kHeads == 1 ? 4 : 2;
  for (; d + kVectors * kLanes <= end; d += kVectors * kLanes)
    AddValues<kType, kHeads, kVectors>(args, span, weights, d, out);
  for (; d + kLanes <= end; d += kLanes)
    AddValues<kType, kHeads, 1>(args, span, weights, d, out);
  if (d < end)
    AddLastEight<kType, kHeads>(args, span, weights, d, out);
}

template <KvType kType, int kHeads>
inline void AddBlock(const AttentionArgs& args, const float* queries, const BlockSpan& span,
                     HeadStates<kHeads>* states, float* out) {
  Slots scores[kHeads];
  ComputeScores<kType, kHeads>(args, queries, span.keys, scores);
  GroupWeights<kHeads> weights = {};
  const uint32_t seen = (span.last == 32 ? ~0u : (1u << span.last) - 1u) & (~0u << span.first);
  for (int h = 0; h < kHeads; ++h) {
    weights.corrections[h] = UpdateSoftmax(scores[h], seen, &states->max[h], &states->sum[h],
                                           weights.p + h * kKvBlockTokens);
  }
  if constexpr (IsPackedKv(kType)) {
    const std::byte* headers = span.values + KvHeaderOffset(kType, args.head_dim);
    GroupWeights<kHeads> scaled;
    for (int64_t d = 0; d < args.head_dim; d += kKvValueGroup) {
      ScaleWeights<kType, kHeads>(weights, headers + 2 * (d / kKvValueGroup) * kKvBlockTokens,
                                  &scaled);
      const int64_t end = d + kKvValueGroup < args.head_dim ? d + kKvValueGroup : args.head_dim;
      AddGroup<kType, kHeads>(args, span, scaled, d, end, out);
    }
  } else {
    AddGroup<kType, kHeads>(args, span, weights, 0, args.head_dim, out);
  }
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

}  // namespace tenon::avx512vnni
