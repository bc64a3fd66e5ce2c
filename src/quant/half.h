// Conversions between float and the 16-bit floats, round to nearest even, NaN kept.
#pragma once

#include <bit>
#include <cstdint>

namespace tenon {

float F16ToF32(uint16_t bits);
uint16_t F32ToF16(float value);

inline float BF16ToF32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
uint16_t F32ToBF16(float value);

}  // namespace tenon
