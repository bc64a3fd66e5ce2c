#include "hal/cpu/kv_seal.h"
#include "hal/cpu/neon/neon_kernels.h"
#include "hal/cpu/neon/vectors.h"
#include "hal/cpu/scalar_half.h"

namespace tenon::neon {
namespace {

// Vectors of one block's 32 slots.
constexpr int kSlotVectors = 8;

constexpr int64_t kMaxHeadDim = 256;

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

// kNf4Codes[code] for four codes, by a look-up of their bytes.
inline float32x4_t LookUpNf4(uint32x4_t codes) {
  const auto* table = reinterpret_cast<const uint8_t*>(kNf4Codes);
  const uint8x16x4_t bytes = {vld1q_u8(table), vld1q_u8(table + 16), vld1q_u8(table + 32),
                              vld1q_u8(table + 48)};
  const uint32x4_t places = vaddq_u32(vmulq_n_u32(codes, 0x04040404u), vdupq_n_u32(0x03020100u));
  return vreinterpretq_f32_u8(vqtbl4q_u8(bytes, vreinterpretq_u8_u32(places)));
}

// Four elements from row `row` and lane `lane` on: of float types row after row, of packed ones as
// words of `count` lanes; their second plane lies `low` bytes from the first.
template <KvType kType>
inline float32x4_t LoadElements(const std::byte* part, int64_t low, int64_t row, int64_t count,
                                int64_t lane) {
  if constexpr (!IsPackedKv(kType)) {
    return LoadKv<kType>(part, row * count + lane);
  } else {
    constexpr int64_t kBits = KvPlaneBits(kType);
    constexpr int64_t kRows = 32 / kBits;
    const auto* at = reinterpret_cast<const uint8_t*>(part + (row / kRows * count + lane) * 4);
    const int32x4_t shift = vdupq_n_s32(static_cast<int32_t>(-(row % kRows) * kBits));
    const uint32x4_t mask = vdupq_n_u32((1u << kBits) - 1u);
    const uint32x4_t codes = vandq_u32(vshlq_u32(vreinterpretq_u32_u8(vld1q_u8(at)), shift), mask);
    if constexpr (kType == KvType::kNf4) {
      return LookUpNf4(codes);
    } else if constexpr (kType == KvType::kHier) {
      const uint32x4_t rest =
          vandq_u32(vshlq_u32(vreinterpretq_u32_u8(vld1q_u8(at + low)), shift), mask);
      return vcvtq_f32_u32(vorrq_u32(vshlq_n_u32(codes, 4), rest));
    } else {
      return vcvtq_f32_u32(codes);
    }
  }
}

// Scales s and terms z (hal/kernel_set.h) of eight groups.
struct GroupScales {
  float32x4_t scale[2];
  float32x4_t term[2];
};

template <KvType kType>
inline float32x4_t TermOf(float32x4_t zero) {
  switch (kType) {
    case KvType::kQ8:
      return vfmaq_n_f32(vdupq_n_f32(-128.0f), zero, 8.0f);
    case KvType::kNf4:
      return vmulq_n_f32(zero, 0.125f);
    case KvType::kHier:
      return vfmaq_n_f32(vdupq_n_f32(-8.0f), zero, 16.0f);
    default:
      return zero;
  }
}

template <KvType kType>
inline GroupScales LoadScales(const std::byte* headers) {
  const uint16x8_t bits = vreinterpretq_u16_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(headers)));
  const uint16x8_t middle = vshlq_n_u16(vandq_u16(bits, vdupq_n_u16(255)), 7);
  const int16x8_t zeros = vshrq_n_s16(vreinterpretq_s16_u16(bits), 8);
  const float share = kType == KvType::kHier ? 0.0625f : 1.0f;
  GroupScales groups;
  groups.scale[0] = vmulq_n_f32(vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(middle))), share);
  groups.scale[1] = vmulq_n_f32(vcvt_f32_f16(vreinterpret_f16_u16(vget_high_u16(middle))), share);
  groups.term[0] = TermOf<kType>(vcvtq_f32_s32(vmovl_s16(vget_low_s16(zeros))));
  groups.term[1] = TermOf<kType>(vcvtq_f32_s32(vmovl_s16(vget_high_s16(zeros))));
  return groups;
}

void WidenF16(const std::byte* f16, int64_t count, float* out) {
  for (int64_t i = 0; i < count; i += kLanes)
    vst1q_f32(out + i, LoadHalfs(f16 + 2 * i));
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

inline float32x4_t CapScores(float32x4_t scores, float softcap) {
  if (softcap == 0.0f)
    return scores;
  const float32x4_t one = vdupq_n_f32(1.0f);
  const float32x4_t exponential = Exp(vmulq_n_f32(scores, 2.0f / softcap));
  const float32x4_t tail = vdivq_f32(one, vaddq_f32(exponential, one));
  return vfmaq_f32(vdupq_n_f32(softcap), vdupq_n_f32(-2.0f * softcap), tail);
}

// A query as a packed block's keys want it; returns what the dot products start at.
template <KvType kType>
inline float ScaleQuery(const AttentionArgs& args, const float* query, const std::byte* keys,
                        float* scaled) {
  const std::byte* headers = keys + KvHeaderOffset(kType, args.head_dim);
  float32x4_t sums[2] = {vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)};
  for (int64_t d = 0; d < args.head_dim; d += 2 * kLanes) {
    const GroupScales groups = LoadScales<kType>(headers + 2 * d);
    for (int v = 0; v < 2; ++v) {
      const float32x4_t q = vmulq_f32(vld1q_f32(query + d + v * kLanes), groups.scale[v]);
      vst1q_f32(scaled + d + v * kLanes, q);
      sums[v] = vfmaq_f32(sums[v], q, groups.term[v]);
    }
  }
  return HalvingSum(vaddq_f32(sums[0], sums[1]));
}

// scores[32] of one head; eight independent sums.
template <KvType kType>
inline void ComputeScores(const AttentionArgs& args, const float* query, const std::byte* keys,
                          float* scores) {
  const int64_t plane = KvLowKeysOffset(args.head_dim);
  float scaled[kMaxHeadDim];
  float start = 0.0f;
  if constexpr (IsPackedKv(kType)) {
    start = ScaleQuery<kType>(args, query, keys, scaled);
    query = scaled;
  }
  float32x4_t acc[kSlotVectors];
  for (float32x4_t& sum : acc)
    sum = vdupq_n_f32(start);
  for (int64_t d = 0; d < args.head_dim; ++d) {
    for (int v = 0; v < kSlotVectors; ++v) {
      const float32x4_t key = LoadElements<kType>(keys, plane, d, kKvBlockTokens, v * kLanes);
      acc[v] = vfmaq_n_f32(acc[v], key, query[d]);
    }
  }
  for (int v = 0; v < kSlotVectors; ++v)
    vst1q_f32(scores + v * kLanes, CapScores(vmulq_n_f32(acc[v], args.scale), args.softcap));
}

// The running state of one head's online softmax; its unscaled output is in args.out.
struct HeadState {
  float max;
  float sum;
};

// Scores to weights, in place, 0 outside the span; returns the correction of what the head has.
inline float UpdateSoftmax(const BlockSpan& span, HeadState* state, float* p) {
  float max = state->max;
  for (int64_t j = span.first; j < span.last; ++j)
    max = p[j] > max ? p[j] : max;
  float32x4_t weights[kSlotVectors];
  for (int v = 0; v < kSlotVectors; ++v)
    vst1q_f32(p + v * kLanes, Exp(vsubq_f32(vld1q_f32(p + v * kLanes), vdupq_n_f32(max))));
  for (int64_t j = 0; j < span.first; ++j)
    p[j] = 0.0f;
  for (int64_t j = span.last; j < kKvBlockTokens; ++j)
    p[j] = 0.0f;
  for (int v = 0; v < kSlotVectors; ++v)
    weights[v] = vld1q_f32(p + v * kLanes);
  for (int half = kSlotVectors / 2; half >= 1; half /= 2) {
    for (int v = 0; v < half; ++v)
      weights[v] = vaddq_f32(weights[v], weights[v + half]);
  }
  const float correction = ExpScalar(state->max - max);
  state->sum = __builtin_fmaf(state->sum, correction, HalvingSum(weights[0]));
  state->max = max;
  return correction;
}

// What weighs a group's values, and what goes into their sums first.
struct GroupWeights {
  float p[kKvBlockTokens];
  float correction;
  float start;  // packed types
};

// The weights of a packed group from those of the block.
template <KvType kType>
inline void ScaleWeights(const GroupWeights& block, const std::byte* headers, GroupWeights* out) {
  float32x4_t products[kSlotVectors];
  for (int v = 0; v < kSlotVectors; v += 2) {
    const GroupScales groups = LoadScales<kType>(headers + 2 * v * kLanes);
    for (int i = 0; i < 2; ++i) {
      const int64_t at = (v + i) * kLanes;
      const float32x4_t p = vmulq_f32(vld1q_f32(block.p + at), groups.scale[i]);
      vst1q_f32(out->p + at, p);
      products[v + i] = vmulq_f32(p, groups.term[i]);
    }
  }
  for (int half = kSlotVectors / 2; half >= 1; half /= 2) {
    for (int v = 0; v < half; ++v)
      products[v] = vaddq_f32(products[v], products[v + half]);
  }
  out->start = HalvingSum(products[0]);
  out->correction = block.correction;
}

// out[d..d+4*kVectors) = out * correction + sum over the span's p * value.
template <KvType kType, int kVectors>
inline void AddValues(const AttentionArgs& args, const BlockSpan& span, const GroupWeights& weights,
                      int64_t d, float* out) {
  const int64_t plane = KvLowValuesOffset(args.head_dim);
  float32x4_t acc[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    const float32x4_t before = vld1q_f32(out + d + v * kLanes);
    if constexpr (IsPackedKv(kType))
      acc[v] = vfmaq_n_f32(vdupq_n_f32(weights.start), before, weights.correction);
    else
      acc[v] = vmulq_n_f32(before, weights.correction);
  }
  for (int64_t j = FirstRow<kType>(span); j < LastRow<kType>(span); ++j) {
    for (int v = 0; v < kVectors; ++v) {
      const float32x4_t values =
          LoadElements<kType>(span.values, plane, j, args.head_dim, d + v * kLanes);
      acc[v] = vfmaq_n_f32(acc[v], values, weights.p[j]);
    }
  }
  for (int v = 0; v < kVectors; ++v)
    vst1q_f32(out + d + v * kLanes, acc[v]);
}

// Dimensions [d, end), all of one group: eight independent sums; head sizes are multiples of 8, so
// the rest is in pairs.
template <KvType kType>
inline void AddGroup(const AttentionArgs& args, const BlockSpan& span, const GroupWeights& weights,
                     int64_t d, int64_t end, float* out) {
  for (; d + 8 * kLanes <= end; d += 8 * kLanes)
    AddValues<kType, 8>(args, span, weights, d, out);
  for (; d < end; d += 2 * kLanes)
    AddValues<kType, 2>(args, span, weights, d, out);
}

template <KvType kType>
inline void AddBlock(const AttentionArgs& args, const float* query, const BlockSpan& span,
                     HeadState* state, float* out) {
  GroupWeights weights = {};
  ComputeScores<kType>(args, query, span.keys, weights.p);
  weights.correction = UpdateSoftmax(span, state, weights.p);
  if constexpr (IsPackedKv(kType)) {
    const std::byte* headers = span.values + KvHeaderOffset(kType, args.head_dim);
    GroupWeights scaled;
    for (int64_t d = 0; d < args.head_dim; d += kKvValueGroup) {
      ScaleWeights<kType>(weights, headers + 2 * (d / kKvValueGroup) * kKvBlockTokens, &scaled);
      const int64_t end = d + kKvValueGroup < args.head_dim ? d + kKvValueGroup : args.head_dim;
      AddGroup<kType>(args, span, scaled, d, end, out);
    }
  } else {
    AddGroup<kType>(args, span, weights, 0, args.head_dim, out);
  }
}

template <KvType kType>
void Attention(const AttentionArgs& args) {
  const int64_t last_block = (args.end - 1) / kKvBlockTokens;
  for (int64_t h = 0; h < args.heads; ++h) {
    const float* query = args.query + h * args.head_dim;
    float* out = args.out + h * args.head_dim;
    HeadState state = {-__builtin_inff(), 0.0f};
    for (int64_t d = 0; d < args.head_dim; ++d)
      out[d] = 0.0f;
    for (int64_t block = args.begin / kKvBlockTokens; block <= last_block; ++block)
      AddBlock<kType>(args, query, SpanOf(args, block), &state, out);
    if (args.partial != nullptr) {
      args.partial[h] = {state.max, state.sum};
      continue;
    }
    const float inverse = 1.0f / state.sum;
    for (int64_t d = 0; d < args.head_dim; ++d)
      out[d] *= inverse;
  }
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

}  // namespace tenon::neon
