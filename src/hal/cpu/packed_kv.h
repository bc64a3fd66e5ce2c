// What the kernels of every set must agree on to read packed blocks of the KV cache with products
// of integers (AttentionArgs in hal/kernel_set.h), so that their bits are equal.
//
// Internal linkage throughout; no other includes than layouts (see panel_layout.h).
#pragma once

#include "hal/kv_block.h"

namespace tenon {

enum class KvPart : uint8_t { kKeys, kValues };

// The largest integer that a factor (of a query, or of the weights of values) is rounded to.
//
// kQ4: signed bytes for keys and, weights being no less than 0, unsigned ones for values: beside
// the half step that codes of 4 bits are off by, an error of 1 in 127 of the largest is little.
// Others: 15 bits. For products of bytes they are 128 * high + low, high within -127..127 and low
// within -64..63; 256 products with codes of 8 bits stay below 2^31.
inline constexpr float FactorLimit(KvType type, KvPart part) {
  if (type != KvType::kQ4)
    return 16256.0f;
  return part == KvPart::kKeys ? 127.0f : 255.0f;
}

// Below it a block's factors count as 0: the limit divided by one of them could be infinite.
inline constexpr float kLeastFactor = 0x1p-100f;

// What a block's factors are multiplied by before they are rounded, and what sums of products with
// the integers are multiplied by.
struct FactorScale {
  float inverse;
  float unit;
};

// `largest`: the largest magnitude among the block's factors.
static inline FactorScale FactorScaleOf(float largest, float limit) {
  return {largest >= kLeastFactor ? limit / largest : 0.0f, largest * (1.0f / limit)};
}

// Codes are integers as they are read (kNf4: looked up, kHier: 16 U + L), less this.
inline constexpr int32_t CodeCentre(KvType type) {
  return type == KvType::kQ4 ? 8 : 0;
}

// s = scale * share, z = zero * factor + offset.
struct PackedTerms {
  float share;
  float factor;
  float offset;
};

inline constexpr PackedTerms PackedTermsOf(KvType type) {
  switch (type) {
    case KvType::kQ8:
      return {1.0f, 8.0f, -128.0f};
    case KvType::kNf4:
      return {0.0078125f, 16.0f, -128.0f};
    case KvType::kHier:
      return {0.0625f, 16.0f, -8.0f};
    default:
      return {1.0f, 1.0f, 8.0f};
  }
}

}  // namespace tenon
