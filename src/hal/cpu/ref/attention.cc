#include "hal/cpu/attention_span.h"
#include "hal/cpu/exp_poly.h"
#include "hal/cpu/kv_seal.h"
#include "hal/cpu/packed_kv.h"
#include "hal/cpu/ref/ref_kernels.h"
#include "hal/cpu/scalar_half.h"

namespace tenon::ref {
namespace {

constexpr int64_t kMaxHeadDim = 256;

template <KvType kType>
float LoadKv(const std::byte* base, int64_t index) {
  if constexpr (kType == KvType::kF32) {
    float value;
    __builtin_memcpy(&value, base + index * 4, 4);
    return value;
  }
  uint16_t bits;
  __builtin_memcpy(&bits, base + index * 2, 2);
  return kType == KvType::kF16 ? ScalarF16ToF32(bits) : ScalarBF16ToF32(bits);
}

template <KvType kType>
void StoreKv(float value, std::byte* base, int64_t index) {
  if constexpr (kType == KvType::kF32) {
    __builtin_memcpy(base + index * 4, &value, 4);
    return;
  }
  const uint16_t bits = kType == KvType::kF16 ? ScalarF32ToF16(value) : ScalarF32ToBF16(value);
  __builtin_memcpy(base + index * 2, &bits, 2);
}

// The code in row `row` and lane `lane` of rows of words with `lanes` words each.
template <int kBits>
int32_t CodeAt(const std::byte* words, int64_t row, int64_t lanes, int64_t lane) {
  constexpr int64_t kRows = 32 / kBits;
  uint32_t word;
  __builtin_memcpy(&word, words + 4 * (row / kRows * lanes + lane), 4);
  return static_cast<int32_t>((word >> (row % kRows * kBits)) & ((1u << kBits) - 1u));
}

// A code of a packed block's keys or values; the second plane lies `low` bytes on.
template <KvType kType>
int32_t LoadCode(const std::byte* part, int64_t low, int64_t row, int64_t lanes, int64_t lane) {
  if constexpr (kType == KvType::kQ8) {
    return CodeAt<8>(part, row, lanes, lane);
  }
  const int32_t code = CodeAt<4>(part, row, lanes, lane);
  if constexpr (kType == KvType::kNf4) {
    return kNf4Levels[code];
  } else if constexpr (kType == KvType::kQ4) {
    return code - CodeCentre(kType);
  } else {
    return code * 16 + CodeAt<4>(part + low, row, lanes, lane);
  }
}

// A packed group's scale s and the term z (hal/kernel_set.h).
struct GroupScale {
  float scale;
  float term;
};

template <KvType kType>
GroupScale LoadScale(const std::byte* headers, int64_t index) {
  constexpr PackedTerms kTerms = PackedTermsOf(kType);
  uint16_t header;
  __builtin_memcpy(&header, headers + 2 * index, 2);
  const auto zero = static_cast<float>(static_cast<int8_t>(header >> 8));
  return {ScaleOfByte(header & 0xffu) * kTerms.share, zero * kTerms.factor + kTerms.offset};
}

// Factors of a block as integers, times `unit`.
struct Factors {
  int32_t i[kMaxHeadDim];
  float unit;
};

void RoundFactors(const float* x, int64_t count, float limit, Factors* out) {
  float largest = 0.0f;
  for (int64_t i = 0; i < count; ++i) {
    const float size = __builtin_fabsf(x[i]);
    largest = size > largest ? size : largest;
  }
  const FactorScale scale = FactorScaleOf(largest, limit);
  for (int64_t i = 0; i < count; ++i) {
    // To nearest even; a NaN becomes some integer, and the block's start is NaN then.
    const float rounded = x[i] * scale.inverse + 0x1.8p23f;
    out->i[i] = static_cast<int32_t>(__builtin_bit_cast(uint32_t, rounded) - 0x4b400000u);
  }
  out->unit = scale.unit;
}

void WidenF16(const std::byte* f16, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = LoadKv<KvType::kF16>(f16, i);
  }
}

template <KvType kType>
void KvStore(const KvStoreArgs& args) {
  for (int64_t d = 0; d < args.head_dim; ++d) {
    StoreKv<kType>(args.key[d], args.key_block, d * kKvBlockTokens + args.slot);
    StoreKv<kType>(args.value[d], args.value_block, args.slot * args.head_dim + d);
  }
}

// The running state of one head's online softmax.
struct HeadState {
  float max = -__builtin_inff();
  float sum = 0.0f;
  float out[kMaxHeadDim] = {};
};

float CapScore(float score, float softcap) {
  if (softcap == 0.0f) {
    return score;
  }
  const float tail = 1.0f / (ExpScalar(score * (2.0f / softcap)) + 1.0f);
  return __builtin_fmaf(-2.0f * softcap, tail, softcap);
}

// Adds up 32 lanes: the upper half to the lower one, five times.
float HalvingSum(float* lanes) {
  for (int half = 16; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) {
      lanes[i] += lanes[i + half];
    }
  }
  return lanes[0];
}

// A head's query as a packed block's keys want it, and what their dot products start at.
struct BlockQuery {
  Factors factors;
  float start;
};

template <KvType kType>
void ScaleQuery(const float* query, int64_t head_dim, const std::byte* keys, BlockQuery* out) {
  float lanes[8] = {};
  float scaled[kMaxHeadDim];
  for (int64_t d = 0; d < head_dim; ++d) {
    const GroupScale group = LoadScale<kType>(keys + KvHeaderOffset(kType, head_dim), d);
    scaled[d] = query[d] * group.scale;
    lanes[d % 8] = __builtin_fmaf(scaled[d], group.term, lanes[d % 8]);
  }
  for (int half = 4; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) {
      lanes[i] += lanes[i + half];
    }
  }
  RoundFactors(scaled, head_dim, FactorLimit(kType, KvPart::kKeys), &out->factors);
  out->start = lanes[0];
}

template <KvType kType>
float FloatDot(const float* query, const std::byte* keys, int64_t head_dim, int64_t slot) {
  float dot = 0.0f;
  for (int64_t d = 0; d < head_dim; ++d) {
    dot = __builtin_fmaf(query[d], LoadKv<kType>(keys, d * kKvBlockTokens + slot), dot);
  }
  return dot;
}

template <KvType kType>
float PackedDot(const BlockQuery& query, const std::byte* keys, int64_t head_dim, int64_t slot) {
  int32_t dot = 0;
  for (int64_t d = 0; d < head_dim; ++d) {
    const int64_t low = KvLowKeysOffset(head_dim);
    dot += query.factors.i[d] * LoadCode<kType>(keys, low, d, kKvBlockTokens, slot);
  }
  return __builtin_fmaf(static_cast<float>(dot), query.factors.unit, query.start);
}

// Scores of the keys that the span has.
template <KvType kType>
void Scores(const AttentionArgs& args, const float* query, const BlockSpan& span, float* scores) {
  BlockQuery block_query;
  if constexpr (IsPackedKv(kType)) {
    ScaleQuery<kType>(query, args.head_dim, span.keys, &block_query);
  }
  for (int64_t j = span.first; j < span.last; ++j) {
    float dot;
    if constexpr (IsPackedKv(kType)) {
      dot = PackedDot<kType>(block_query, span.keys, args.head_dim, j);
    } else {
      dot = FloatDot<kType>(query, span.keys, args.head_dim, j);
    }
    scores[j] = CapScore(args.scale * dot, args.softcap);
  }
}

template <KvType kType>
void AddFloats(const AttentionArgs& args, const BlockSpan& span, const float* p, float correction,
               float* out) {
  for (int64_t d = 0; d < args.head_dim; ++d) {
    float acc = out[d] * correction;
    for (int64_t j = span.first; j < span.last; ++j) {
      acc = __builtin_fmaf(p[j], LoadKv<kType>(span.values, j * args.head_dim + d), acc);
    }
    out[d] = acc;
  }
}

// Adds the values of group `group`: all of the block's, unseen ones by 0.
template <KvType kType>
void AddGroup(const AttentionArgs& args, const BlockSpan& span, const float* p, int64_t group,
              float correction, float* out) {
  const std::byte* headers = span.values + KvHeaderOffset(kType, args.head_dim);
  float scaled[kKvBlockTokens];
  float products[kKvBlockTokens];
  for (int64_t j = 0; j < kKvBlockTokens; ++j) {
    const GroupScale scale = LoadScale<kType>(headers, group * kKvBlockTokens + j);
    scaled[j] = p[j] * scale.scale;
    products[j] = scaled[j] * scale.term;
  }
  const float start = HalvingSum(products);
  Factors factors;
  RoundFactors(scaled, kKvBlockTokens, FactorLimit(kType, KvPart::kValues), &factors);
  const int64_t end = (group + 1) * kKvValueGroup;
  for (int64_t d = group * kKvValueGroup; d < args.head_dim && d < end; ++d) {
    int32_t sum = 0;
    for (int64_t j = 0; j < kKvBlockTokens; ++j) {
      const int64_t low = KvLowValuesOffset(args.head_dim);
      sum += factors.i[j] * LoadCode<kType>(span.values, low, j, args.head_dim, d);
    }
    const float before = __builtin_fmaf(out[d], correction, start);
    out[d] = __builtin_fmaf(static_cast<float>(sum), factors.unit, before);
  }
}

template <KvType kType>
void AddValues(const AttentionArgs& args, const BlockSpan& span, const float* p, float correction,
               float* out) {
  if constexpr (IsPackedKv(kType)) {
    for (int64_t group = 0; group < KvValueGroups(args.head_dim); ++group) {
      AddGroup<kType>(args, span, p, group, correction, out);
    }
  } else {
    AddFloats<kType>(args, span, p, correction, out);
  }
}

template <KvType kType>
void AddBlock(const AttentionArgs& args, const float* query, const BlockSpan& span,
              HeadState* state) {
  float p[kKvBlockTokens] = {};  // slots outside the span count 0
  Scores<kType>(args, query, span, p);
  float max = state->max;
  for (int64_t j = span.first; j < span.last; ++j) {
    max = p[j] > max ? p[j] : max;
  }
  for (int64_t j = span.first; j < span.last; ++j) {
    p[j] = ExpScalar(p[j] - max);
  }
  const float correction = ExpScalar(state->max - max);
  AddValues<kType>(args, span, p, correction, state->out);
  state->sum = __builtin_fmaf(state->sum, correction, HalvingSum(p));
  state->max = max;
}

template <KvType kType>
void Attention(const AttentionArgs& args) {
  for (int64_t h = 0; h < args.heads; ++h) {
    HeadState state;
    const int64_t last = (args.end - 1) / kKvBlockTokens;
    for (int64_t block = args.begin / kKvBlockTokens; block <= last; ++block) {
      AddBlock<kType>(args, args.query + h * args.head_dim, SpanOf(args, block), &state);
    }
    const float inverse = args.partial == nullptr ? 1.0f / state.sum : 1.0f;
    if (args.partial != nullptr) {
      args.partial[h] = {state.max, state.sum};
    }
    for (int64_t d = 0; d < args.head_dim; ++d) {
      args.out[h * args.head_dim + d] = state.out[d] * inverse;
    }
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

}  // namespace tenon::ref
