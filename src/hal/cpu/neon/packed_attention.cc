// Attention over packed blocks of the KV cache (hal/kv_block.h), by products of bytes.
//
// sdot multiplies the four codes of a word with four of the factors and adds them to the word's sum
// of 32 bits. Integers of 15 bits are 128 * high + low: two of these; codes of 8 bits are moved
// down by 128, which the sum of the factors makes up for. kQ4 has factors of one byte; those of
// values are unsigned, and so is their product, udot. Keys (words of channels, lanes are tokens)
// and values (words of tokens, lanes are channels) are the same loop.
#include "hal/cpu/kv_seal.h"
#include "hal/cpu/neon/attention_parts.h"
#include "hal/cpu/neon/neon_kernels.h"
#include "hal/cpu/packed_kv.h"

namespace tenon::neon {
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
// What codes are moved down by, to be signed bytes.
constexpr int32_t CodeBias(KvType type) {
  return type == KvType::kQ4 ? 0 : 128;
}

// Factors of one head as integers, in fours as the codes are.
struct Factors {
  uint8_t high[kMaxHeadDim];
  uint8_t low[kMaxHeadDim];  // kQ4 has these only
  int32_t bias;              // what a sum of products begins at
  float unit;                // what it is multiplied by
  float start;               // and what is added then
};

struct CodeFours {
  uint8x16_t v[2];
};

inline uint8x16_t LoadBytes(const std::byte* at) {
  return vld1q_u8(reinterpret_cast<const uint8_t*>(at));
}

// Words of the second plane lie `low` bytes on.
template <KvType kType>
inline CodeFours LoadFours(const std::byte* at, int64_t low) {
  const uint8x16_t sign = vdupq_n_u8(128);
  const uint8x16_t words = LoadBytes(at);
  if constexpr (kType == KvType::kQ8) {
    const uint8x16_t codes = veorq_u8(words, sign);
    return {{codes, codes}};
  }
  const uint8x16_t even = vandq_u8(words, vdupq_n_u8(15));
  const uint8x16_t odd = vshrq_n_u8(words, 4);
  if constexpr (kType == KvType::kNf4) {
    const uint8x16_t table = veorq_u8(vld1q_u8(kNf4Levels), sign);
    return {{vqtbl1q_u8(table, even), vqtbl1q_u8(table, odd)}};
  } else if constexpr (kType == KvType::kHier) {
    const uint8x16_t rest = LoadBytes(at + low);
    return {{veorq_u8(vsliq_n_u8(rest, even, 4), sign),
             veorq_u8(vsliq_n_u8(vshrq_n_u8(rest, 4), odd, 4), sign)}};
  }
  return {{even, odd}};
}

// Words [rows][stride / 4] of a packed part, from some lane on.
struct Words {
  const std::byte* at;
  int64_t stride;  // bytes from a row to the next one
  int64_t rows;
  int64_t low;  // bytes to the second plane
};

inline uint8x16_t FourFactors(const uint8_t* bytes) {
  uint32_t four;
  __builtin_memcpy(&four, bytes, sizeof(four));
  return vreinterpretq_u8_u32(vdupq_n_u32(four));
}

template <KvType kType, KvPart kPart>
inline int32x4_t AddProducts(int32x4_t sums, uint8x16_t codes, uint8x16_t factors) {
  if constexpr (kType == KvType::kQ4 && kPart == KvPart::kValues)
    return vreinterpretq_s32_u32(vdotq_u32(vreinterpretq_u32_s32(sums), codes, factors));
  else
    return vdotq_s32(sums, vreinterpretq_s8_u8(codes), vreinterpretq_s8_u8(factors));
}

// sums[v] = sum over the rows' codes of code * factor, for 4 * kVectors lanes.
template <KvType kType, KvPart kPart, int kVectors>
inline void SumProducts(const Words& words, const Factors& factors, int32x4_t* sums) {
  constexpr int kFours = WordFours(kType);
  int32x4_t high[kVectors];
  int32x4_t low[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    high[v] = vdupq_n_s32(0);
    low[v] = vdupq_n_s32(factors.bias);
  }
  for (int64_t row = 0; row < words.rows; ++row) {
    const uint8_t* row_low = factors.low + row * 4 * kFours;
    const uint8_t* row_high = factors.high + row * 4 * kFours;
    for (int v = 0; v < kVectors; ++v) {
      const std::byte* at = words.at + row * words.stride + 4 * kLanes * v;
      const CodeFours codes = LoadFours<kType>(at, words.low);
      for (int i = 0; i < kFours; ++i) {
        low[v] = AddProducts<kType, kPart>(low[v], codes.v[i], FourFactors(row_low + 4 * i));
        if constexpr (kType != KvType::kQ4)
          high[v] = AddProducts<kType, kPart>(high[v], codes.v[i], FourFactors(row_high + 4 * i));
      }
    }
  }
  for (int v = 0; v < kVectors; ++v)
    sums[v] = vaddq_s32(low[v], vshlq_n_s32(high[v], 7));
}

// Scales s and terms z (hal/kernel_set.h) of eight groups.
struct GroupScales {
  float32x4_t scale[2];
  float32x4_t term[2];
};

template <KvType kType>
inline GroupScales LoadScales(const std::byte* headers) {
  constexpr PackedTerms kTerms = PackedTermsOf(kType);
  const uint16x8_t bits = vreinterpretq_u16_u8(LoadBytes(headers));
  const uint16x8_t middle = vshlq_n_u16(vandq_u16(bits, vdupq_n_u16(255)), 7);
  const int16x8_t zeros = vshrq_n_s16(vreinterpretq_s16_u16(bits), 8);
  const uint16x4_t scales[2] = {vget_low_u16(middle), vget_high_u16(middle)};
  const int16x4_t halves[2] = {vget_low_s16(zeros), vget_high_s16(zeros)};
  GroupScales groups;
  for (int v = 0; v < 2; ++v) {
    groups.scale[v] = vmulq_n_f32(vcvt_f32_f16(vreinterpret_f16_u16(scales[v])), kTerms.share);
    groups.term[v] =
        vfmaq_n_f32(vdupq_n_f32(kTerms.offset), vcvtq_f32_s32(vmovl_s16(halves[v])), kTerms.factor);
  }
  return groups;
}

// The lowest bytes of eight integers in the order of the codes: as they are for kQ8, else the even
// ones first.
template <KvType kType>
inline void StoreBytes(int32x4_t first, int32x4_t second, uint8_t* out) {
  const uint16x8_t pairs = vreinterpretq_u16_s16(vcombine_s16(vmovn_s32(first), vmovn_s32(second)));
  uint8x8_t bytes = vmovn_u16(pairs);
  if constexpr (kType != KvType::kQ8) {
    const uint8x8_t order = {0, 2, 4, 6, 1, 3, 5, 7};
    bytes = vtbl1_u8(bytes, order);
  }
  vst1_u8(out, bytes);
}

// `count` scaled factors to integers.
template <KvType kType, KvPart kPart>
inline void RoundFactors(const float* x, int64_t count, Factors* out) {
  float32x4_t largest = vdupq_n_f32(0.0f);
  for (int64_t i = 0; i < count; i += kLanes)
    largest = vmaxq_f32(largest, vabsq_f32(vld1q_f32(x + i)));
  const FactorScale scale = FactorScaleOf(vmaxvq_f32(largest), FactorLimit(kType, kPart));
  int32x4_t sum = vdupq_n_s32(0);
  for (int64_t i = 0; i < count; i += 2 * kLanes) {
    int32x4_t rounded[2];
    int32x4_t high[2];
    for (int v = 0; v < 2; ++v) {
      rounded[v] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + i + v * kLanes), scale.inverse));
      sum = vaddq_s32(sum, rounded[v]);
      high[v] = vrshrq_n_s32(rounded[v], 7);
    }
    if constexpr (kType == KvType::kQ4) {
      StoreBytes<kType>(rounded[0], rounded[1], out->low + i);
    } else {
      StoreBytes<kType>(high[0], high[1], out->high + i);
      StoreBytes<kType>(vsubq_s32(rounded[0], vshlq_n_s32(high[0], 7)),
                        vsubq_s32(rounded[1], vshlq_n_s32(high[1], 7)), out->low + i);
    }
  }
  out->unit = scale.unit;
  out->bias = (CodeBias(kType) - CodeCentre(kType)) * vaddvq_s32(sum);
}

// A query as a block's keys want it.
template <KvType kType>
inline void ScaleQuery(const AttentionArgs& args, const float* query, const std::byte* keys,
                       Factors* out) {
  const std::byte* headers = keys + KvHeaderOffset(kType, args.head_dim);
  float scaled[kMaxHeadDim];
  float32x4_t starts[2] = {vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)};
  for (int64_t d = 0; d < args.head_dim; d += 2 * kLanes) {
    const GroupScales groups = LoadScales<kType>(headers + 2 * d);
    for (int v = 0; v < 2; ++v) {
      const float32x4_t q = vmulq_f32(vld1q_f32(query + d + v * kLanes), groups.scale[v]);
      vst1q_f32(scaled + d + v * kLanes, q);
      starts[v] = vfmaq_f32(starts[v], q, groups.term[v]);
    }
  }
  out->start = HalvingSum(vaddq_f32(starts[0], starts[1]));
  RoundFactors<kType, KvPart::kKeys>(scaled, args.head_dim, out);
}

// scores[32] of one head.
template <KvType kType>
inline void ComputeScores(const AttentionArgs& args, const float* query, const std::byte* keys,
                          float* scores) {
  Factors factors;
  ScaleQuery<kType>(args, query, keys, &factors);
  const Words words = {keys, 4 * kKvBlockTokens, args.head_dim / WordCodes(kType),
                       KvLowKeysOffset(args.head_dim)};
  int32x4_t sums[kSlotVectors];
  SumProducts<kType, KvPart::kKeys, kSlotVectors>(words, factors, sums);
  for (int v = 0; v < kSlotVectors; ++v) {
    const float32x4_t dots =
        vfmaq_n_f32(vdupq_n_f32(factors.start), vcvtq_f32_s32(sums[v]), factors.unit);
    vst1q_f32(scores + v * kLanes, ScaleScores(args, dots));
  }
}

// What weighs the values of one group of channels.
template <KvType kType>
inline void ScaleWeights(const float* p, const std::byte* headers, Factors* out) {
  float scaled[kKvBlockTokens];
  float32x4_t products[kSlotVectors];
  for (int v = 0; v < kSlotVectors; v += 2) {
    const GroupScales groups = LoadScales<kType>(headers + 2 * v * kLanes);
    for (int i = 0; i < 2; ++i) {
      const int64_t at = (v + i) * kLanes;
      const float32x4_t weights = vmulq_f32(vld1q_f32(p + at), groups.scale[i]);
      vst1q_f32(scaled + at, weights);
      products[v + i] = vmulq_f32(weights, groups.term[i]);
    }
  }
  for (int half = kSlotVectors / 2; half >= 1; half /= 2) {
    for (int v = 0; v < half; ++v)
      products[v] = vaddq_f32(products[v], products[v + half]);
  }
  out->start = HalvingSum(products[0]);
  RoundFactors<kType, KvPart::kValues>(scaled, kKvBlockTokens, out);
}

// out[d..d+4*kVectors).
template <KvType kType, int kVectors>
inline void AddValues(const AttentionArgs& args, const BlockSpan& span, const Factors& factors,
                      float correction, int64_t d, float* out) {
  const Words words = {span.values + 4 * d, 4 * args.head_dim, kKvBlockTokens / WordCodes(kType),
                       KvLowValuesOffset(args.head_dim)};
  int32x4_t sums[kVectors];
  SumProducts<kType, KvPart::kValues, kVectors>(words, factors, sums);
  for (int v = 0; v < kVectors; ++v) {
    float* at = out + d + v * kLanes;
    const float32x4_t before = vfmaq_n_f32(vdupq_n_f32(factors.start), vld1q_f32(at), correction);
    vst1q_f32(at, vfmaq_n_f32(before, vcvtq_f32_s32(sums[v]), factors.unit));
  }
}

template <KvType kType>
inline void AddBlock(const AttentionArgs& args, const float* query, const BlockSpan& span,
                     HeadState* state, float* out) {
  float p[kKvBlockTokens];
  ComputeScores<kType>(args, query, span.keys, p);
  const float correction = UpdateSoftmax(span, state, p);
  const std::byte* headers = span.values + KvHeaderOffset(kType, args.head_dim);
  int64_t d = 0;
  for (int64_t group = 0; d < args.head_dim; ++group) {
    Factors factors;
    ScaleWeights<kType>(p, headers + 2 * group * kKvBlockTokens, &factors);
    const int64_t left = args.head_dim - d;
    const int64_t end = d + (left < kKvValueGroup ? left : kKvValueGroup);
    for (; d + 8 * kLanes <= end; d += 8 * kLanes)
      AddValues<kType, 8>(args, span, factors, correction, d, out);
    for (; d < end; d += 2 * kLanes)
      AddValues<kType, 2>(args, span, factors, correction, d, out);
  }
}

void WidenF16(const std::byte* f16, int64_t count, float* out) {
  for (int64_t i = 0; i < count; i += kLanes)
    vst1q_f32(out + i, LoadHalfs(f16 + 2 * i));
}

}  // namespace

void AttentionQ8(const AttentionArgs& args) {
  VisitBlocks<AddBlock<KvType::kQ8>>(args);
}
void AttentionQ4(const AttentionArgs& args) {
  VisitBlocks<AddBlock<KvType::kQ4>>(args);
}
void AttentionNf4(const AttentionArgs& args) {
  VisitBlocks<AddBlock<KvType::kNf4>>(args);
}
void AttentionHier(const AttentionArgs& args) {
  VisitBlocks<AddBlock<KvType::kHier>>(args);
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

}  // namespace tenon::neon
