// Attention over packed blocks of the KV cache (hal/kv_block.h), by products of bytes.
//
// vpdpbusd multiplies the four codes of a word (unsigned) with four of the factors (signed) and
// adds them to the word's sum of 32 bits. Integers of 15 bits are 128 * high + low: two of these.
// Keys (words of channels, lanes are tokens) and values (words of tokens, lanes are channels) are
// the same loop.
#include "hal/cpu/avx512vnni/attention_parts.h"
#include "hal/cpu/avx512vnni/avx512vnni_kernels.h"
#include "hal/cpu/kv_seal.h"
#include "hal/cpu/packed_kv.h"
#include "hal/cpu/scalar_half.h"

namespace tenon::avx512vnni {
namespace {

constexpr int64_t kMaxHeadDim = 256;

// Vectors of four codes that a word makes: kQ8 the word itself, else codes 0, 2, 4, 6, then the odd
// ones.
constexpr int WordFours(KvType type) {
  return type == KvType::kQ8 ? 1 : 2;
}
constexpr int WordCodes(KvType type) {
  return 4 * WordFours(type);
}

// Factors of one head as integers, in fours as the codes are.
struct Factors {
  alignas(64) uint8_t high[kMaxHeadDim];
  alignas(64) uint8_t low[kMaxHeadDim];  // kQ4 has these only
  int32_t bias;                          // what a sum of products begins at
  float unit;                            // what it is multiplied by
  float start;                           // and what is added then
};

struct CodeFours {
  __m512i v[2];
};

inline __m512i LoadSixteenWords(const std::byte* at) {
  return _mm512_loadu_si512(at);
}
// Eight words in the lower half, anything above.
inline __m512i LoadEightWords(const std::byte* at) {
  return _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}
using LoadFn = __m512i (*)(const std::byte*);

inline __m512i OddNibbles(__m512i words) {
  return _mm512_and_si512(_mm512_srli_epi16(words, 4), _mm512_set1_epi8(15));
}

// kLoad loads a vector of words; those of the second plane lie `low` bytes on.
template <KvType kType, LoadFn kLoad>
inline CodeFours LoadFours(const std::byte* at, int64_t low) {
  const __m512i words = kLoad(at);
  if constexpr (kType == KvType::kQ8)
    return {{words, words}};
  const __m512i nibbles = _mm512_set1_epi8(15);
  CodeFours codes = {{_mm512_and_si512(words, nibbles), OddNibbles(words)}};
  if constexpr (kType == KvType::kNf4) {
    const __m512i table =
        _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kNf4Levels)));
    codes.v[0] = _mm512_shuffle_epi8(table, codes.v[0]);
    codes.v[1] = _mm512_shuffle_epi8(table, codes.v[1]);
  } else if constexpr (kType == KvType::kHier) {
    const __m512i rest = kLoad(at + low);
    codes.v[0] = _mm512_or_si512(_mm512_slli_epi16(codes.v[0], 4), _mm512_and_si512(rest, nibbles));
    codes.v[1] = _mm512_or_si512(_mm512_slli_epi16(codes.v[1], 4), OddNibbles(rest));
  }
  return codes;
}

// Words [rows][stride / 4] of a packed part, from some lane on.
struct Words {
  const std::byte* at;
  int64_t stride;  // bytes from a row to the next one
  int64_t rows;
  int64_t low;  // bytes to the second plane
};

inline __m512i FourFactors(const uint8_t* bytes) {
  int32_t four;
  __builtin_memcpy(&four, bytes, sizeof(four));
  return _mm512_set1_epi32(four);
}

// sums + codes times four factors. kQ4's weights of values are unsigned, its codes can be either.
template <KvType kType, KvPart kPart>
inline __m512i AddProducts(__m512i sums, __m512i codes, __m512i factors) {
  if constexpr (kType == KvType::kQ4 && kPart == KvPart::kValues)
    return _mm512_dpbusd_epi32(sums, factors, codes);
  else
    return _mm512_dpbusd_epi32(sums, codes, factors);
}

// sums[h] = sum over the rows' codes of code * factor, for one vector of lanes.
template <KvType kType, KvPart kPart, int kHeads, LoadFn kLoad>
inline void SumProducts(const Words& words, const Factors* factors, __m512i* sums) {
  constexpr int kFours = WordFours(kType);
  __m512i high[kHeads];
  __m512i low[kHeads];
  for (int h = 0; h < kHeads; ++h) {
    high[h] = _mm512_setzero_si512();
    low[h] = _mm512_set1_epi32(factors[h].bias);
  }
  for (int64_t row = 0; row < words.rows; ++row) {
    const CodeFours codes = LoadFours<kType, kLoad>(words.at + row * words.stride, words.low);
    for (int i = 0; i < kFours; ++i) {
      const int64_t at = 4 * (row * kFours + i);
      for (int h = 0; h < kHeads; ++h) {
        low[h] = AddProducts<kType, kPart>(low[h], codes.v[i], FourFactors(factors[h].low + at));
        if constexpr (kType != KvType::kQ4)
          high[h] =
              AddProducts<kType, kPart>(high[h], codes.v[i], FourFactors(factors[h].high + at));
      }
    }
  }
  for (int h = 0; h < kHeads; ++h)
    sums[h] = _mm512_add_epi32(low[h], _mm512_slli_epi32(high[h], 7));
}

// Scales s and terms z (hal/kernel_set.h) of eight groups.
struct GroupScales {
  __m256 scale;
  __m256 term;
};

template <KvType kType>
inline GroupScales LoadScales(const std::byte* headers) {
  constexpr PackedTerms kTerms = PackedTermsOf(kType);
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(headers));
  const __m128i middle = _mm_slli_epi16(_mm_and_si128(bits, _mm_set1_epi16(255)), 7);
  const __m256 zero = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_srai_epi16(bits, 8)));
  return {_mm256_mul_ps(_mm256_cvtph_ps(middle), _mm256_set1_ps(kTerms.share)),
          _mm256_fmadd_ps(zero, _mm256_set1_ps(kTerms.factor), _mm256_set1_ps(kTerms.offset))};
}

inline __m256 Magnitude(__m256 x) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}

inline float HalvingSumOfEight(__m256 lanes) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

inline float MaxOfEight(__m256 lanes) {
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_shuffle_ps(four, four, 1)));
}

inline int32_t SumOfEight(__m256i lanes) {
  const __m128i four =
      _mm_add_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
  const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 1)));
}

// The lowest bytes of eight integers in the order of the codes: as they are for kQ8, else the even
// ones first.
template <KvType kType>
inline void StoreBytes(__m256i x, uint8_t* out) {
  const __m256i places = kType == KvType::kQ8 ? _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)
                                              : _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
  const __m256i ordered = _mm256_permutevar8x32_epi32(x, places);
  const __m256i bytes = _mm256_shuffle_epi8(ordered, _mm256_set1_epi32(0x0c080400));
  const __m128i eight =
      _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out), eight);
}

// `count` scaled factors, whose largest magnitudes are in `largest`, to integers.
template <KvType kType, KvPart kPart>
inline void RoundFactors(const float* x, int64_t count, __m256 largest, Factors* out) {
  const FactorScale scale = FactorScaleOf(MaxOfEight(largest), FactorLimit(kType, kPart));
  __m256i sum = _mm256_setzero_si256();
  for (int64_t i = 0; i < count; i += 8) {
    const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(scale.inverse));
    const __m256i rounded = _mm256_cvtps_epi32(scaled);
    sum = _mm256_add_epi32(sum, rounded);
    if constexpr (kType == KvType::kQ4) {
      StoreBytes<kType>(rounded, out->low + i);
    } else {
      const __m256i high = _mm256_srai_epi32(_mm256_add_epi32(rounded, _mm256_set1_epi32(64)), 7);
      StoreBytes<kType>(high, out->high + i);
      StoreBytes<kType>(_mm256_sub_epi32(rounded, _mm256_slli_epi32(high, 7)), out->low + i);
    }
  }
  out->unit = scale.unit;
  out->bias = -CodeCentre(kType) * SumOfEight(sum);
}

// A head's query as a block's keys want it.
template <KvType kType>
inline void ScaleQuery(const float* query, int64_t head_dim, const std::byte* keys, Factors* out) {
  const std::byte* headers = keys + KvHeaderOffset(kType, head_dim);
  alignas(64) float scaled[kMaxHeadDim];
  __m256 start = _mm256_setzero_ps();
  __m256 largest = _mm256_setzero_ps();
  for (int64_t d = 0; d < head_dim; d += 8) {
    const GroupScales groups = LoadScales<kType>(headers + 2 * d);
    const __m256 q = _mm256_mul_ps(_mm256_loadu_ps(query + d), groups.scale);
    _mm256_storeu_ps(scaled + d, q);
    start = _mm256_fmadd_ps(q, groups.term, start);
    largest = _mm256_max_ps(largest, Magnitude(q));
  }
  out->start = HalvingSumOfEight(start);
  RoundFactors<kType, KvPart::kKeys>(scaled, head_dim, largest, out);
}

inline __m512 DotsOf(__m512i sums, const Factors& factors) {
  return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), _mm512_set1_ps(factors.unit),
                         _mm512_set1_ps(factors.start));
}

template <KvType kType, int kHeads>
inline void ComputeScores(const AttentionArgs& args, const float* queries, const std::byte* keys,
                          Slots* scores) {
  Factors factors[kHeads];
  for (int h = 0; h < kHeads; ++h)
    ScaleQuery<kType>(queries + h * args.head_dim, args.head_dim, keys, &factors[h]);
  Words words = {keys, 4 * kKvBlockTokens, args.head_dim / WordCodes(kType),
                 KvLowKeysOffset(args.head_dim)};
  __m512i low[kHeads];
  __m512i high[kHeads];
  SumProducts<kType, KvPart::kKeys, kHeads, LoadSixteenWords>(words, factors, low);
  words.at += 4 * kLanes;
  SumProducts<kType, KvPart::kKeys, kHeads, LoadSixteenWords>(words, factors, high);
  for (int h = 0; h < kHeads; ++h)
    scores[h] = ScaleScores(args, {DotsOf(low[h], factors[h]), DotsOf(high[h], factors[h])});
}

// What weighs the values of one group of channels, for one head.
template <KvType kType>
inline void ScaleWeights(const float* p, const std::byte* headers, Factors* out) {
  alignas(64) float scaled[kKvBlockTokens];
  __m256 products[4];
  __m256 largest = _mm256_setzero_ps();
  for (int v = 0; v < 4; ++v) {
    const GroupScales groups = LoadScales<kType>(headers + 16 * v);
    const __m256 weights = _mm256_mul_ps(_mm256_loadu_ps(p + 8 * v), groups.scale);
    _mm256_storeu_ps(scaled + 8 * v, weights);
    products[v] = _mm256_mul_ps(weights, groups.term);
    largest = _mm256_max_ps(largest, weights);
  }
  out->start = HalvingSumOfEight(_mm256_add_ps(_mm256_add_ps(products[0], products[2]),
                                               _mm256_add_ps(products[1], products[3])));
  RoundFactors<kType, KvPart::kValues>(scaled, kKvBlockTokens, largest, out);
}

// out[d..d+16) of kHeads heads, or the lanes of `mask`, which kLoad loads the words of.
template <KvType kType, int kHeads, LoadFn kLoad>
inline void AddValues(const AttentionArgs& args, const BlockSpan& span, const Factors* factors,
                      const float* corrections, int64_t d, __mmask16 mask, float* out) {
  const Words words = {span.values + 4 * d, 4 * args.head_dim, kKvBlockTokens / WordCodes(kType),
                       KvLowValuesOffset(args.head_dim)};
  __m512i sums[kHeads];
  SumProducts<kType, KvPart::kValues, kHeads, kLoad>(words, factors, sums);
  for (int h = 0; h < kHeads; ++h) {
    float* at = out + h * args.head_dim + d;
    const __m512 before =
        _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, at), _mm512_set1_ps(corrections[h]),
                        _mm512_set1_ps(factors[h].start));
    _mm512_mask_storeu_ps(
        at, mask,
        _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[h]), _mm512_set1_ps(factors[h].unit), before));
  }
}

template <KvType kType, int kHeads>
inline void AddBlock(const AttentionArgs& args, const float* queries, const BlockSpan& span,
                     HeadStates<kHeads>* states, float* out) {
  Slots scores[kHeads];
  ComputeScores<kType, kHeads>(args, queries, span.keys, scores);
  BlockWeights<kHeads> weights;
  UpdateHeads<kHeads>(span, scores, states, &weights);
  const std::byte* headers = span.values + KvHeaderOffset(kType, args.head_dim);
  int64_t d = 0;
  for (int64_t group = 0; d < args.head_dim; ++group) {
    Factors factors[kHeads];
    for (int h = 0; h < kHeads; ++h)
      ScaleWeights<kType>(weights.p + h * kKvBlockTokens, headers + 2 * group * kKvBlockTokens,
                          &factors[h]);
    const int64_t left = args.head_dim - d;
    const int64_t end = d + (left < kKvValueGroup ? left : kKvValueGroup);
    for (; d + kLanes <= end; d += kLanes)
      AddValues<kType, kHeads, LoadSixteenWords>(args, span, factors, weights.corrections, d,
                                                 FirstLanes(kLanes), out);
    if (d < end) {
      AddValues<kType, kHeads, LoadEightWords>(args, span, factors, weights.corrections, d,
                                               FirstLanes(8), out);
      d = end;
    }
  }
}

template <KvType kType, int kHeads>
void AttendHeads(const AttentionArgs& args, int64_t first_head) {
  VisitBlocks<kHeads, AddBlock<kType, kHeads>>(args, first_head);
}

template <KvType kType>
void Attention(const AttentionArgs& args) {
  constexpr AttendHeadsFn kAttend[] = {AttendHeads<kType, 1>, AttendHeads<kType, 2>,
                                       AttendHeads<kType, 3>, AttendHeads<kType, 4>};
  AttendInGroups(args, kAttend);
}

void WidenF16(const std::byte* f16, int64_t count, float* out) {
  for (int64_t i = 0; i < count; i += 8) {
    const auto* at = reinterpret_cast<const __m128i*>(f16 + 2 * i);
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(at)));
  }
}

}  // namespace

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
