// Attention over packed blocks of the KV cache (hal/kv_block.h), by products of integers.
//
// A word of codes is cut into vectors of 16-bit pairs of codes, and vpmaddwd multiplies a pair with
// a pair of the query's (or the weights') integers of 15 bits: one sum of 32 bits for each word, no
// lane changes its place. For kQ4 vpmaddubsw does so with bytes, twice as many. Keys (words of
// channels, lanes are tokens) and values (words of tokens, lanes are channels) are the same loop.
// Scales go into the query and into the probabilities before they are rounded to integers.
// Additions of integers take one cycle, so that few sums suffice: two vectors, a cache line, for up
// to four heads.
#include "hal/cpu/avx2/attention_parts.h"
#include "hal/cpu/avx2/avx2_kernels.h"
#include "hal/cpu/kv_seal.h"
#include "hal/cpu/packed_kv.h"

namespace tenon::avx2 {
namespace {

// Codes in a word, and the pairs that they make: code k with code k + WordPairs.
constexpr int WordCodes(KvType type) {
  return 32 / static_cast<int>(KvPlaneBits(type));
}
constexpr int WordPairs(KvType type) {
  return WordCodes(type) / 2;
}

// Factors of one head as integers.
struct Factors {
  // As the codes are: pairs of 16 bits, of kQ4 four bytes.
  alignas(32) int32_t words[kMaxHeadDim / 2];
  int32_t bias;  // what a sum of products begins at
  float unit;    // what it is multiplied by
  float start;   // and what is added then
};

// One vector of words, in as many registers as it takes: kQ8: words; kNf4, kHier: bytes of the
// codes 0, 2, 4, 6 and of 1, 3, 5, 7.
struct CodeBytes {
  __m256i even;
  __m256i odd;
};

template <KvType kType>
[[gnu::always_inline]] inline CodeBytes LoadBytes(const std::byte* at, int64_t low) {
  const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  const __m256i nibbles = _mm256_set1_epi8(15);
  if constexpr (kType == KvType::kQ8) {
    return {words, words};
  } else if constexpr (kType == KvType::kQ4) {
    return {_mm256_and_si256(words, nibbles),
            _mm256_and_si256(_mm256_srli_epi16(words, 4), nibbles)};
  } else if constexpr (kType == KvType::kNf4) {
    const __m256i table =
        _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kNf4Levels)));
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi16(words, 4), nibbles);
    return {_mm256_shuffle_epi8(table, _mm256_and_si256(words, nibbles)),
            _mm256_shuffle_epi8(table, odd)};
  } else {
    const __m256i rest = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + low));
    const __m256i even = _mm256_slli_epi16(_mm256_and_si256(words, nibbles), 4);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi16(rest, 4), nibbles);
    return {_mm256_or_si256(even, _mm256_and_si256(rest, nibbles)),
            _mm256_or_si256(_mm256_andnot_si256(nibbles, words), odd)};
  }
}

// Pair k of each word, of 16 bits each: code k and code k + WordPairs.
template <KvType kType>
[[gnu::always_inline]] inline __m256i PairOf(const CodeBytes& codes, int k) {
  const __m256i bytes = k % 2 == 0 ? codes.even : codes.odd;
  const bool upper = kType == KvType::kQ8 ? k == 1 : k >= 2;
  return upper ? _mm256_srli_epi16(bytes, 8) : _mm256_and_si256(bytes, _mm256_set1_epi16(255));
}

// Words [rows][stride / 4] of a packed part, from some lane on.
struct Words {
  const std::byte* at;
  int64_t stride;  // bytes from a row to the next one
  int64_t rows;
  int64_t low;   // bytes to the second plane
  int64_t next;  // bytes to the block that is read after this one
};

[[gnu::always_inline]] inline void PrefetchLine(const std::byte* at) {
  _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0);
}

// sums[h][v] += sum over the rows' codes of code * factor, for 8 * kVectors lanes.
template <KvType kType, int kHeads, int kVectors>
[[gnu::always_inline]] inline void AddPairs(const Words& words, const Factors* factors,
                                            __m256i (&sums)[kHeads][kVectors]) {
  constexpr int kPairs = WordPairs(kType);
  const std::byte* at = words.at;
  for (int64_t row = 0; row < words.rows; ++row, at += words.stride) {
    PrefetchLine(at + words.next);
    if constexpr (kType == KvType::kHier) {
      PrefetchLine(at + words.low + words.next);
    }
    CodeBytes codes[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      codes[v] = LoadBytes<kType>(at + 4 * kLanes * v, words.low);
    }
#pragma GCC unroll 4
    for (int k = 0; k < kPairs; ++k) {
      __m256i pairs[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        pairs[v] = PairOf<kType>(codes[v], k);
        KeepInRegister(pairs[v]);
      }
#pragma GCC unroll 4
      for (int h = 0; h < kHeads; ++h) {
        const __m256i factor = _mm256_set1_epi32(factors[h].words[row * kPairs + k]);
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
          sums[h][v] = _mm256_add_epi32(sums[h][v], _mm256_madd_epi16(pairs[v], factor));
          KeepInRegister(sums[h][v]);
        }
      }
    }
  }
}

// Rows of kQ4 whose products fit sums of 16 bits: eight pairs, 8 * 2 * 15 * 127 < 2^15 of keys, and
// 8 * 2 * 15 * 255 < 2^16 of values, which are not negative: their sums begin at -2^15.
constexpr int64_t kShortRows = 4;
constexpr int16_t ShortStart(KvPart part) {
  return part == KvPart::kKeys ? 0 : -0x8000;
}

// As AddPairs, for kQ4, up to kShortRows rows.
template <KvPart kPart, int kHeads, int kVectors>
[[gnu::always_inline]] inline void AddNibbles(const Words& words, int64_t first, int64_t end,
                                              const Factors* factors,
                                              __m256i (&sums)[kHeads][kVectors]) {
  __m256i shorts[kHeads][kVectors];
#pragma GCC unroll 4
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      shorts[h][v] = _mm256_set1_epi16(ShortStart(kPart));
    }
  }
  const std::byte* at = words.at + first * words.stride;
#pragma GCC unroll 4
  for (int64_t row = first; row < end; ++row, at += words.stride) {
    PrefetchLine(at + words.next);
    CodeBytes codes[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      codes[v] = LoadBytes<KvType::kQ4>(at + 4 * kLanes * v, 0);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 2 * kHeads; ++i) {
      const int h = i % kHeads;
      const __m256i factor = _mm256_set1_epi32(factors[h].words[2 * row + i / kHeads]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const __m256i bytes = i < kHeads ? codes[v].even : codes[v].odd;
        const __m256i products = kPart == KvPart::kKeys ? _mm256_maddubs_epi16(bytes, factor)
                                                        : _mm256_maddubs_epi16(factor, bytes);
        shorts[h][v] = _mm256_add_epi16(shorts[h][v], products);
        KeepInRegister(shorts[h][v]);
      }
    }
  }
#pragma GCC unroll 4
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      sums[h][v] =
          _mm256_add_epi32(sums[h][v], _mm256_madd_epi16(shorts[h][v], _mm256_set1_epi16(1)));
    }
  }
}

// sums[h][v] = sum over the rows' codes of code * factor, for 8 * kVectors lanes.
template <KvType kType, KvPart kPart, int kHeads, int kVectors>
[[gnu::always_inline]] inline void SumProducts(const Words& words, const Factors* factors,
                                               __m256i (&sums)[kHeads][kVectors]) {
#pragma GCC unroll 4
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      sums[h][v] = _mm256_set1_epi32(factors[h].bias);
    }
  }
  if constexpr (kType != KvType::kQ4) {
    AddPairs<kType, kHeads, kVectors>(words, factors, sums);
    return;
  }
  int64_t row = 0;
  for (; row + kShortRows <= words.rows; row += kShortRows) {
    AddNibbles<kPart, kHeads, kVectors>(words, row, row + kShortRows, factors, sums);
  }
  if (row < words.rows) {
    AddNibbles<kPart, kHeads, kVectors>(words, row, words.rows, factors, sums);
  }
}

// Scales s and terms z (hal/kernel_set.h) of eight groups.
struct GroupScales {
  __m256 scale;
  __m256 term;
};

template <KvType kType>
[[gnu::always_inline]] inline GroupScales LoadScales(const std::byte* headers) {
  constexpr PackedTerms kTerms = PackedTermsOf(kType);
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(headers));
  const __m128i middle = _mm_slli_epi16(_mm_and_si128(bits, _mm_set1_epi16(255)), 7);
  const __m256 scale = _mm256_cvtph_ps(middle);
  const __m256 zero = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_srai_epi16(bits, 8)));
  return {_mm256_mul_ps(scale, _mm256_set1_ps(kTerms.share)),
          _mm256_fmadd_ps(zero, _mm256_set1_ps(kTerms.factor), _mm256_set1_ps(kTerms.offset))};
}

[[gnu::always_inline]] inline __m256 Magnitude(__m256 x) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}

// Factors are rounded 32 at a time, in four vectors.
constexpr int64_t kRoundedFactors = 4 * kLanes;

// 32 integers of kQ4 to eight words of four bytes: of each eight, the even ones and the odd ones.
template <KvPart kPart>
[[gnu::always_inline]] inline void StoreFours(const __m256i* x, int32_t* words) {
  const __m256i low = _mm256_packs_epi32(x[0], x[1]);
  const __m256i high = _mm256_packs_epi32(x[2], x[3]);
  const __m256i bytes =
      kPart == KvPart::kKeys ? _mm256_packs_epi16(low, high) : _mm256_packus_epi16(low, high);
  // In each half of the vector: 0, 1, 2, 3 of each eight, then 4, 5, 6, 7.
  const __m256i order = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
  const __m256i ordered = _mm256_shuffle_epi8(bytes, order);
  const __m128i first = _mm256_castsi256_si128(ordered);
  const __m128i second = _mm256_extracti128_si256(ordered, 1);
  auto* out = reinterpret_cast<__m128i*>(words);
  _mm_store_si128(out, _mm_unpacklo_epi16(first, second));
  _mm_store_si128(out + 1, _mm_unpackhi_epi16(first, second));
}

// 16 integers to eight pairs: of each eight, k and k + 4; kQ8: of each four, k and k + 2.
template <KvType kType>
[[gnu::always_inline]] inline __m256i PairsOf(__m256i a, __m256i b) {
  if constexpr (kType == KvType::kQ8) {
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
    return _mm256_permute4x64_epi64(_mm256_shuffle_epi8(_mm256_packs_epi32(a, b), order), 0xd8);
  }
  const __m256i low = _mm256_permute2x128_si256(a, b, 0x20);
  const __m256i high = _mm256_permute2x128_si256(a, b, 0x31);
  return _mm256_blend_epi16(low, _mm256_slli_epi32(high, 16), 0xaa);
}

[[gnu::always_inline]] inline int32_t SumLanes(__m256i v) {
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  const __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 1)));
}

template <KvType kType, KvPart kPart>
[[gnu::always_inline]] inline void StoreIntegers(const __m256i* x, int64_t at, Factors* out) {
  if constexpr (kType == KvType::kQ4) {
    StoreFours<kPart>(x, out->words + at / 4);
  } else {
    auto* words = reinterpret_cast<__m256i*>(out->words + at / 2);
    _mm256_store_si256(words, PairsOf<kType>(x[0], x[1]));
    _mm256_store_si256(words + 1, PairsOf<kType>(x[2], x[3]));
  }
}

// `count` scaled factors, a multiple of 32, whose largest magnitudes are in `largest`, to integers.
template <KvType kType, KvPart kPart>
[[gnu::always_inline]] inline void RoundFactors(const float* x, int64_t count, __m256 largest,
                                                Factors* out) {
  const FactorScale scale = FactorScaleOf(MaxLane(largest), FactorLimit(kType, kPart));
  const __m256 inverse = _mm256_set1_ps(scale.inverse);
  __m256i sum = _mm256_setzero_si256();
  for (int64_t i = 0; i < count; i += kRoundedFactors) {
    __m256i rounded[4];
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      rounded[v] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_load_ps(x + i + v * kLanes), inverse));
      if constexpr (CodeCentre(kType) != 0) {
        sum = _mm256_add_epi32(sum, rounded[v]);
      }
    }
    StoreIntegers<kType, kPart>(rounded, i, out);
  }
  out->unit = scale.unit;
  out->bias = 0;
  if constexpr (kType == KvType::kQ4) {
    // Two sums of 16 bits for each of 32, of the values once.
    out->bias = -CodeCentre(kType) * SumLanes(sum) - 2 * ShortStart(kPart);
  }
}

// The heads' queries as a block's keys want them.
template <KvType kType, int kHeads>
[[gnu::always_inline]] inline void ScaleQueries(const AttentionArgs& args, const float* query,
                                                const BlockSpan& span, Factors* out) {
  const std::byte* headers = span.keys + KvHeaderOffset(kType, args.head_dim);
  alignas(32) float scaled[kHeads][kMaxHeadDim];
  __m256 starts[kHeads];
  __m256 largest[kHeads];
#pragma GCC unroll 4
  for (int h = 0; h < kHeads; ++h) {
    starts[h] = _mm256_setzero_ps();
    largest[h] = _mm256_setzero_ps();
  }
  for (int64_t d = 0; d < args.head_dim; d += kLanes) {
    PrefetchLine(headers + 2 * d + span.next);
    const GroupScales groups = LoadScales<kType>(headers + 2 * d);
#pragma GCC unroll 4
    for (int h = 0; h < kHeads; ++h) {
      const __m256 q = _mm256_mul_ps(_mm256_loadu_ps(query + h * args.head_dim + d), groups.scale);
      _mm256_store_ps(scaled[h] + d, q);
      starts[h] = _mm256_fmadd_ps(q, groups.term, starts[h]);
      largest[h] = _mm256_max_ps(largest[h], Magnitude(q));
    }
  }
  const int64_t count = (args.head_dim + kRoundedFactors - 1) / kRoundedFactors * kRoundedFactors;
#pragma GCC unroll 4
  for (int h = 0; h < kHeads; ++h) {
    for (int64_t d = args.head_dim; d < count; d += kLanes) {
      _mm256_store_ps(scaled[h] + d, _mm256_setzero_ps());
    }
    out[h].start = HalvingSum(starts[h]);
    RoundFactors<kType, KvPart::kKeys>(scaled[h], count, largest[h], &out[h]);
  }
}

// Blocks that are visited at a time, in three passes: all dot products, the softmax, all values. A
// block's way through them is a long chain of dependent operations; those of two blocks
// overlap. (Eight were no faster.)
constexpr int64_t kPassBlocks = 2;

template <int kHeads>
struct Pass {
  int64_t blocks;
  BlockSpan spans[kPassBlocks];
  alignas(32) float scores[kPassBlocks][kHeads][kKvBlockTokens];  // then probabilities
  float max[kPassBlocks][kHeads];                                 // of the block alone
  float correction[kPassBlocks][kHeads];
};

// Dot products with all 32 keys of a block.
template <KvType kType, int kHeads>
[[gnu::always_inline]] inline void Dots(const AttentionArgs& args, const float* query,
                                        const BlockSpan& span, __m256 (*dots)[kKeyVectors]) {
  Factors factors[kHeads];
  ScaleQueries<kType, kHeads>(args, query, span, factors);
  constexpr int64_t kStride = 4 * kKvBlockTokens;
  for (int first = 0; first < kKeyVectors; first += 2) {
    const Words words = {span.keys + first * 4 * kLanes, kStride, args.head_dim / WordCodes(kType),
                         KvLowKeysOffset(args.head_dim), span.next};
    __m256i sums[kHeads][2];
    SumProducts<kType, KvPart::kKeys, kHeads, 2>(words, factors, sums);
#pragma GCC unroll 4
    for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) {
        dots[h][first + v] =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[h][v]), _mm256_set1_ps(factors[h].unit),
                            _mm256_set1_ps(factors[h].start));
      }
    }
  }
}

// What weighs the values of one group of channels.
template <KvType kType, int kHeads>
[[gnu::always_inline]] inline void ScaleWeights(const float (*weights)[kKvBlockTokens],
                                                const std::byte* headers, Factors* out) {
  GroupScales groups[kKeyVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kKeyVectors; ++v) {
    groups[v] = LoadScales<kType>(headers + 2 * v * kLanes);
  }
#pragma GCC unroll 4
  for (int h = 0; h < kHeads; ++h) {
    alignas(32) float scaled[kKvBlockTokens];
    __m256 products[kKeyVectors];
    __m256 largest = _mm256_setzero_ps();
#pragma GCC unroll 4
    for (int v = 0; v < kKeyVectors; ++v) {
      const __m256 p = _mm256_mul_ps(_mm256_load_ps(weights[h] + v * kLanes), groups[v].scale);
      _mm256_store_ps(scaled + v * kLanes, p);
      products[v] = _mm256_mul_ps(p, groups[v].term);
      largest = _mm256_max_ps(largest, p);
    }
    out[h].start = HalvingSum(_mm256_add_ps(_mm256_add_ps(products[0], products[2]),
                                            _mm256_add_ps(products[1], products[3])));
    RoundFactors<kType, KvPart::kValues>(scaled, kKvBlockTokens, largest, &out[h]);
  }
}

// Adds the values to kVectors vectors of the outputs, from element d on.
template <KvType kType, int kHeads, int kVectors>
[[gnu::always_inline]] inline void AddValues(const BlockSpan& span, const Factors* factors,
                                             const float* corrections, int64_t head_dim, int64_t d,
                                             HeadState<kHeads>* state) {
  const Words words = {span.values + 4 * d, 4 * head_dim, kKvBlockTokens / WordCodes(kType),
                       KvLowValuesOffset(head_dim), span.next};
  __m256i sums[kHeads][kVectors];
  SumProducts<kType, KvPart::kValues, kHeads, kVectors>(words, factors, sums);
#pragma GCC unroll 4
  for (int h = 0; h < kHeads; ++h) {
    const __m256 correction = _mm256_set1_ps(corrections[h]);
    const __m256 start = _mm256_set1_ps(factors[h].start);
    const __m256 unit = _mm256_set1_ps(factors[h].unit);
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* out = state->out[h] + d + v * kLanes;
      const __m256 before = _mm256_fmadd_ps(_mm256_load_ps(out), correction, start);
      _mm256_store_ps(out, _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[h][v]), unit, before));
    }
  }
}

template <KvType kType, int kHeads>
void ScorePass(const AttentionArgs& args, const float* query, Pass<kHeads>* pass) {
  for (int64_t block = 0; block < pass->blocks; ++block) {
    __m256 scores[kHeads][kKeyVectors];
    Dots<kType, kHeads>(args, query, pass->spans[block], scores);
#pragma GCC unroll 4
    for (int h = 0; h < kHeads; ++h) {
      ScaleScores(args, pass->spans[block], scores[h], scores[h]);
      pass->max[block][h] = MaxScore(scores[h], -__builtin_inff());
#pragma GCC unroll 4
      for (int v = 0; v < kKeyVectors; ++v) {
        _mm256_store_ps(pass->scores[block][h] + v * kLanes, scores[h][v]);
      }
    }
  }
}

template <int kHeads>
void SoftmaxPass(HeadState<kHeads>* state, Pass<kHeads>* pass) {
  for (int64_t block = 0; block < pass->blocks; ++block) {
#pragma GCC unroll 4
    for (int h = 0; h < kHeads; ++h) {
      __m256 scores[kKeyVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kKeyVectors; ++v) {
        scores[v] = _mm256_load_ps(pass->scores[block][h] + v * kLanes);
      }
      const float own = pass->max[block][h];
      const float max = own > state->max[h] ? own : state->max[h];
      pass->correction[block][h] = Softmax<kHeads>(scores, max, h, state, pass->scores[block][h]);
    }
  }
}

template <KvType kType, int kHeads>
void ValuePass(int64_t head_dim, const Pass<kHeads>& pass, HeadState<kHeads>* state) {
  for (int64_t block = 0; block < pass.blocks; ++block) {
    const BlockSpan& span = pass.spans[block];
    const std::byte* headers = span.values + KvHeaderOffset(kType, head_dim);
    int64_t d = 0;
    for (int64_t group = 0; d < head_dim; ++group) {
      Factors factors[kHeads];
      const std::byte* at = headers + 2 * group * kKvBlockTokens;
      PrefetchLine(at + span.next);
      ScaleWeights<kType, kHeads>(pass.scores[block], at, factors);
      const int64_t left = head_dim - d;
      const int64_t end = d + (left < kKvValueGroup ? left : kKvValueGroup);
      const float* corrections = pass.correction[block];
      for (; d + 2 * kLanes <= end; d += 2 * kLanes) {
        AddValues<kType, kHeads, 2>(span, factors, corrections, head_dim, d, state);
      }
      for (; d < end; d += kLanes) {
        AddValues<kType, kHeads, 1>(span, factors, corrections, head_dim, d, state);
      }
    }
  }
}

// Heads [head, head + kHeads).
template <KvType kType, int kHeads>
void AttendHeads(const AttentionArgs& args, int64_t head) {
  HeadState<kHeads> state;
  BeginHeads<kHeads>(args, &state);
  const float* query = args.query + head * args.head_dim;
  const int64_t end = (args.end - 1) / kKvBlockTokens + 1;
  Pass<kHeads> pass;
  for (int64_t block = args.begin / kKvBlockTokens; block < end; block += pass.blocks) {
    pass.blocks = end - block < kPassBlocks ? end - block : kPassBlocks;
    for (int64_t i = 0; i < pass.blocks; ++i) {
      pass.spans[i] = SpanOf(args, block + i);
    }
    ScorePass<kType, kHeads>(args, query, &pass);
    SoftmaxPass<kHeads>(&state, &pass);
    ValuePass<kType, kHeads>(args.head_dim, pass, &state);
  }
  StoreHeads<kHeads>(args, head, state);
}

template <KvType kType>
void Attention(const AttentionArgs& args) {
  constexpr AttendHeadsFn kAttend[] = {AttendHeads<kType, 1>, AttendHeads<kType, 2>,
                                       AttendHeads<kType, 3>, AttendHeads<kType, 4>};
  AttendInGroups(args, kAttend);
}

void WidenF16(const std::byte* f16, int64_t count, float* out) {
  for (int64_t i = 0; i < count; i += kLanes) {
    _mm256_storeu_ps(out + i, LoadF16(f16 + 2 * i));
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

}  // namespace tenon::avx2
