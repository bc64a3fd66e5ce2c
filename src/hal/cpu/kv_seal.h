// Packing a block of the KV cache (hal/kv_block.h), written once for all kernel sets: loops over
// eight lanes that a compiler turns into vectors of any width, without any choice of order left, so
// that the bits are the same everywhere. A set supplies the widening of f16.
//
// Scales come from the group's own range. (Smaller ones that clip the outermost values have less
// squared error with 4 bits, but not less divergence of a model's output: measured on SmolLM2.)
//
// Internal linkage throughout; no other includes than layouts (see panel_layout.h).
#pragma once

#include <cstdint>

#include "hal/cpu/scalar_half.h"
#include "hal/kernel_set.h"

namespace tenon {

inline constexpr int kSealLanes = 8;
// The header of a group that reads back as NaN: f16 0x7f80.
inline constexpr uint16_t kScaleNaN = 0x00ff;
// The largest scale byte that is finite: f16 0x7b80.
inline constexpr uint32_t kMaxScaleByte = 0xf7;

// One group of values: [count] floats, count a multiple of 8 up to kKvValueGroup.
struct SealGroup {
  int64_t count;
  bool finite;
  float low;
  float high;
  alignas(32) float x[kKvValueGroup];
};

// What a group becomes. `codes` has room for its values (kHier: 16 U + L).
struct SealedGroup {
  uint16_t header;
  uint8_t* codes;
};

static inline float SealMin(float a, float b) {
  return a < b ? a : b;
}
static inline float SealMax(float a, float b) {
  return a > b ? a : b;
}
// To the nearest integer, ties to even, for |x| < 2^22.
static inline float SealRound(float x) {
  return (x + 0x1.8p23f) - 0x1.8p23f;
}
static inline float ScaleOfByte(uint32_t byte) {
  return ScalarF16ToF32(static_cast<uint16_t>(byte << 7));
}
// The smallest byte whose scale is at least `scale`.
static inline uint32_t ScaleByteAbove(float scale) {
  uint32_t byte = (ScalarF32ToF16(scale) + 127u) >> 7;
  if (byte < kMaxScaleByte && ScaleOfByte(byte) < scale)
    ++byte;
  return byte < kMaxScaleByte ? byte : kMaxScaleByte;
}

static inline void FindRange(SealGroup* group) {
  float low[kSealLanes];
  float high[kSealLanes];
  uint32_t odd[kSealLanes] = {};  // an infinity or a NaN: all bits of the exponent
  for (int l = 0; l < kSealLanes; ++l)
    low[l] = high[l] = group->x[l];
  for (int64_t i = 0; i < group->count; i += kSealLanes) {
    for (int l = 0; l < kSealLanes; ++l) {
      const float x = group->x[i + l];
      low[l] = SealMin(x, low[l]);
      high[l] = SealMax(x, high[l]);
      odd[l] |= (__builtin_bit_cast(uint32_t, x) & 0x7f800000u) == 0x7f800000u ? 1u : 0u;
    }
  }
  group->low = low[0];
  group->high = high[0];
  for (int l = 0; l < kSealLanes; ++l) {
    group->low = SealMin(low[l], group->low);
    group->high = SealMax(high[l], group->high);
    odd[0] |= odd[l];
  }
  group->finite = odd[0] == 0;
}

static inline float SealClamp(float x, float limit) {
  return SealMax(SealMin(x, limit), -limit);
}

// A scale with a zero, as floats.
struct AsymmetricScale {
  float scale;
  float inverse;
  float zero;
};

static inline float Code4(float x, const AsymmetricScale& s) {
  return SealMax(SealMin(SealRound(x * s.inverse - s.zero), 15.0f), 0.0f);
}

static inline uint16_t AsymmetricHeader(uint32_t byte, float zero) {
  const auto bits = static_cast<uint32_t>(static_cast<int32_t>(zero)) & 0xffu;
  return static_cast<uint16_t>(byte | bits << 8);
}

// Half of the group's range, and its middle. Halves first: their sum is finite.
static inline float HalfRange(const SealGroup& group) {
  return group.high * 0.5f - group.low * 0.5f;
}
static inline float Middle(const SealGroup& group) {
  return group.high * 0.5f + group.low * 0.5f;
}

// The byte of the smallest scale that is at least `needed` and with which a zero of up to 127 steps
// of scale / `parts` reaches the group's middle.
static inline uint32_t CentredByte(const SealGroup& group, float needed, float parts) {
  const float middle = SealMax(Middle(group), -Middle(group));
  const uint32_t byte = ScaleByteAbove(SealMax(needed, middle * parts / 127.0f));
  return byte > 0 ? byte : 1;
}

static inline void SealQ8(const SealGroup& group, SealedGroup* out) {
  // 123 rather than 127 steps for half of the range: the offset is within 4 steps of the middle.
  const uint32_t byte = CentredByte(group, HalfRange(group) / 123.0f, 0.125f);
  const float inverse = 1.0f / ScaleOfByte(byte);
  const float zero = SealRound(SealClamp(Middle(group) * inverse * 0.125f, 127.0f));
  out->header = AsymmetricHeader(byte, zero);
  for (int64_t i = 0; i < group.count; ++i) {
    const float code = SealRound(group.x[i] * inverse - 8.0f * zero);
    out->codes[i] = static_cast<uint8_t>(static_cast<int32_t>(SealClamp(code, 127.0f) + 128.0f));
  }
}

static inline void SealQ4(const SealGroup& group, SealedGroup* out) {
  // 119.5 rather than 127: the zero lies 7.5 steps below the middle.
  const uint32_t byte = CentredByte(group, HalfRange(group) / 7.5f, 127.0f / 119.5f);
  AsymmetricScale s;
  s.scale = ScaleOfByte(byte);
  s.inverse = 1.0f / s.scale;
  s.zero = SealRound(SealClamp(Middle(group) * s.inverse - 7.5f, 127.0f));
  out->header = AsymmetricHeader(byte, s.zero);
  for (int64_t i = 0; i < group.count; ++i)
    out->codes[i] = static_cast<uint8_t>(static_cast<int32_t>(Code4(group.x[i], s)));
}

// The midpoints of neighbouring levels.
static inline float Nf4Code(float x) {
  float code = 0.0f;
  for (int i = 0; i < 15; ++i) {
    const float middle = static_cast<float>(kNf4Levels[i] + kNf4Levels[i + 1]) * 0.5f - 128.0f;
    code += x > middle ? 1.0f : 0.0f;
  }
  return code;
}

static inline void SealNf4(const SealGroup& group, SealedGroup* out) {
  // Levels reach 127 of 128 parts of the scale.
  const uint32_t byte = CentredByte(group, HalfRange(group) * (128.0f / 127.0f), 8.0f);
  const float inverse = 128.0f / ScaleOfByte(byte);
  const float zero = SealRound(SealClamp(Middle(group) * inverse * 0.0625f, 127.0f));
  out->header = AsymmetricHeader(byte, zero);
  for (int64_t i = 0; i < group.count; ++i) {
    const float code = Nf4Code(group.x[i] * inverse - zero * 16.0f);
    out->codes[i] = static_cast<uint8_t>(static_cast<int32_t>(code));
  }
}

// The scale of kHier: the smallest for which all values are within half a step of a U, so that L
// can make up for the rest: from (zero - 1/2) to (zero + 15 + 7/16) scales.
static inline AsymmetricScale CoveringScale(const SealGroup& group, uint32_t* byte) {
  const float largest = SealMax(-group.low, group.high);
  const float needed = SealMax(HalfRange(group) / 7.75f, largest / 127.0f);
  AsymmetricScale s;
  *byte = ScaleByteAbove(needed);
  for (*byte = *byte > 0 ? *byte : 1;; ++*byte) {
    s.scale = ScaleOfByte(*byte);
    s.inverse = 1.0f / s.scale;
    s.zero = SealRound(SealClamp(group.low * s.inverse, 127.0f));
    if (group.high * s.inverse <= s.zero + 15.4375f || *byte >= kMaxScaleByte)
      return s;
  }
}

static inline void SealHier(const SealGroup& group, SealedGroup* out) {
  uint32_t byte = 0;
  const AsymmetricScale s = CoveringScale(group, &byte);
  out->header = AsymmetricHeader(byte, s.zero);
  for (int64_t i = 0; i < group.count; ++i) {
    const float high = Code4(group.x[i], s);
    const float rest = (group.x[i] * s.inverse - s.zero - high) * 16.0f;
    const float low = SealMax(SealMin(SealRound(rest), 7.0f), -8.0f) + 8.0f;
    out->codes[i] = static_cast<uint8_t>(static_cast<int32_t>(high * 16.0f + low));
  }
}

template <KvType kType>
static inline void SealAny(const SealGroup& group, SealedGroup* out) {
  if (!group.finite) {
    out->header = kScaleNaN;
    for (int64_t i = 0; i < group.count; ++i)
      out->codes[i] = 0;
  } else if constexpr (kType == KvType::kQ8) {
    SealQ8(group, out);
  } else if constexpr (kType == KvType::kQ4) {
    SealQ4(group, out);
  } else if constexpr (kType == KvType::kNf4) {
    SealNf4(group, out);
  } else {
    SealHier(group, out);
  }
}

// kWiden(f16, count, floats) widens count values, a multiple of 8.
using SealWiden = void (*)(const std::byte* f16, int64_t count, float* out);

template <KvType kType, SealWiden kWiden>
static inline void PackGroup(const std::byte* f16, int64_t count, uint8_t* codes,
                             std::byte* header) {
  SealGroup group = {};  // filled: a compiler cannot see that count is not 0
  group.count = count;
  kWiden(f16, count, group.x);
  FindRange(&group);
  SealedGroup sealed = {0, codes};
  SealAny<kType>(group, &sealed);
  __builtin_memcpy(header, &sealed.header, 2);
}

// Codes of as many rows as a word holds, [kSealLanes rows][kMaxSealRow].
inline constexpr int64_t kMaxSealRow = 256;
using SealRows = uint8_t[kSealLanes][kMaxSealRow];

// Words of `kBits`-bit codes from row 0 on; of each code, the bits from `shift` on.
template <int kBits>
static inline void PutWords(const SealRows& rows, int64_t count, int shift, std::byte* out) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t word = 0;
    for (int row = 0; row < 32 / kBits; ++row)
      word |= ((static_cast<uint32_t>(rows[row][i]) >> shift) & ((1u << kBits) - 1u))
              << (row * kBits);
    __builtin_memcpy(out + 4 * i, &word, 4);
  }
}

// The words of one row of words, number `at` of its part.
template <KvType kType>
static inline void PutPlanes(const SealRows& rows, int64_t count, int64_t low, int64_t at,
                             std::byte* part) {
  std::byte* words = part + at * count * 4;
  if constexpr (kType == KvType::kQ8) {
    PutWords<8>(rows, count, 0, words);
  } else if constexpr (kType == KvType::kHier) {
    PutWords<4>(rows, count, 4, words);
    PutWords<4>(rows, count, 0, words + low);
  } else {
    PutWords<4>(rows, count, 0, words);
  }
}

template <KvType kType, SealWiden kWiden>
static inline void SealBlock(const KvSealArgs& args) {
  constexpr int64_t kRows = 32 / KvPlaneBits(kType);
  const int64_t head_dim = args.head_dim;
  const int64_t headers = KvHeaderOffset(kType, head_dim);
  SealRows rows;
  for (int64_t d = 0; d < head_dim; d += kRows) {
    for (int64_t i = 0; i < kRows; ++i) {
      PackGroup<kType, kWiden>(args.f16_keys + 2 * (d + i) * kKvBlockTokens, kKvBlockTokens,
                               rows[i], args.key_block + headers + 2 * (d + i));
    }
    PutPlanes<kType>(rows, kKvBlockTokens, KvLowKeysOffset(head_dim), d / kRows, args.key_block);
  }
  for (int64_t j = 0; j < kKvBlockTokens; j += kRows) {
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t d = 0; d < head_dim; d += kKvValueGroup) {
        const int64_t left = head_dim - d;
        const int64_t header = d / kKvValueGroup * kKvBlockTokens + j + i;
        PackGroup<kType, kWiden>(args.f16_values + 2 * ((j + i) * head_dim + d),
                                 left < kKvValueGroup ? left : kKvValueGroup, rows[i] + d,
                                 args.value_block + headers + 2 * header);
      }
    }
    PutPlanes<kType>(rows, head_dim, KvLowValuesOffset(head_dim), j / kRows, args.value_block);
  }
}

}  // namespace tenon
