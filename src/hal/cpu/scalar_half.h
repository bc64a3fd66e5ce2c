// 16-bit float conversions for kernel files: the values of quant/half.h, with internal linkage and
// no other include (see panel_layout.h). Rounding is to nearest even; a NaN becomes a quiet NaN.
#pragma once

#include <cstdint>

namespace tenon {

static inline float ScalarF16ToF32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fffu) << 13;
  // The exponent's bias grows from 15 to 127; the product also normalizes subnormals.
  uint32_t result = __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, magnitude) * 0x1p112f);
  if ((bits & 0x7c00u) == 0x7c00u) {  // infinity or NaN
    const uint32_t quiet = (bits & 0x3ffu) != 0 ? 0x400000u : 0u;
    result = magnitude | 0x7f800000u | quiet;
  }
  return __builtin_bit_cast(float, result | sign);
}

static inline uint16_t ScalarF32ToF16(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x47800000u) {  // 2^16 and above
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: 0.5f has the unit 2^-24 of subnormals
    half = __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, magnitude) + 0.5f) - 0x3f000000u;
  } else {
    half = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return static_cast<uint16_t>(half | sign);
}

static inline float ScalarBF16ToF32(uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16);
}

static inline uint16_t ScalarF32ToBF16(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return static_cast<uint16_t>((bits >> 16) | 0x40u);
  }
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace tenon
