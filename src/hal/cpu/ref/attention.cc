#include "hal/cpu/exp_poly.h"
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

BlockSpan SpanOf(const AttentionArgs& args, int64_t block) {
  const int64_t start = block * kKvBlockTokens;
  const int64_t offset = args.block_table[block] * args.block_stride;
  const int64_t first = args.begin > start ? args.begin - start : 0;
  const int64_t left = args.end - start;
  return {args.keys + offset, args.values + offset, first,
          left < kKvBlockTokens ? left : kKvBlockTokens};
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

template <KvType kType>
float Score(const AttentionArgs& args, const float* query, const std::byte* keys, int64_t slot) {
  float dot = 0.0f;
  for (int64_t d = 0; d < args.head_dim; ++d) {
    dot = __builtin_fmaf(query[d], LoadKv<kType>(keys, d * kKvBlockTokens + slot), dot);
  }
  return CapScore(args.scale * dot, args.softcap);
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

template <KvType kType>
void AddBlock(const AttentionArgs& args, const float* query, const BlockSpan& span,
              HeadState* state) {
  float p[kKvBlockTokens] = {};  // slots outside the span count 0
  float max = state->max;
  for (int64_t j = span.first; j < span.last; ++j) {
    p[j] = Score<kType>(args, query, span.keys, j);
    max = p[j] > max ? p[j] : max;
  }
  for (int64_t j = span.first; j < span.last; ++j) {
    p[j] = ExpScalar(p[j] - max);
  }
  const float correction = ExpScalar(state->max - max);
  for (int64_t d = 0; d < args.head_dim; ++d) {
    float acc = state->out[d] * correction;
    for (int64_t j = span.first; j < span.last; ++j) {
      acc = __builtin_fmaf(p[j], LoadKv<kType>(span.values, j * args.head_dim + d), acc);
    }
    state->out[d] = acc;
  }
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

}  // namespace tenon::ref
