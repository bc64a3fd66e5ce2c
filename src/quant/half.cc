#include "quant/half.h"

namespace tenon {
namespace {

constexpr uint32_t kF32Infinity = 0x7F800000;
constexpr uint32_t kF32QuietBit = 0x00400000;
constexpr uint32_t kF16Infinity = 0x7C00;

// The smallest float that rounds to infinity as f16: 65520, halfway between 65504 and 65536.
constexpr uint32_t kF16Overflow = 0x477FF000;
// 2^-14, the smallest normal f16.
constexpr uint32_t kF16SmallestNormal = 0x38800000;

// value / 2^shift, to nearest, ties to even. REQUIRES: 1 <= shift <= 31.
uint32_t ShiftRightRounded(uint32_t value, int shift) {
  const uint32_t odd = (value >> shift) & 1U;
  const uint32_t below_half = (1U << (shift - 1)) - 1U;
  return (value + below_half + odd) >> shift;
}

// `magnitude` holds the bits of a finite float below 2^-14; the result counts units of 2^-24.
uint32_t SubnormalF16(uint32_t magnitude) {
  const int exponent = static_cast<int>(magnitude >> 23);
  // 2^-25 has exponent 102 and ties to zero; anything below rounds to zero.
  if (exponent < 102)
    return 0;
  const uint32_t significand = (magnitude & 0x007FFFFF) | 0x00800000;
  return ShiftRightRounded(significand, 126 - exponent);
}

}  // namespace

float F16ToF32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1FU;
  const uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0x1F)
    return std::bit_cast<float>(sign | kF32Infinity | fraction << 13);
  if (exponent == 0) {
    // Units of 2^-24, exact in float.
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  // 112 is the difference of the exponents' biases, 127 - 15.
  return std::bit_cast<float>(sign | (exponent + 112U) << 23 | fraction << 13);
}

uint16_t F32ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000U;
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  uint32_t half = 0;
  if (magnitude > kF32Infinity)
    half = kF16Infinity | ((magnitude | kF32QuietBit) >> 13 & 0x3FFU);
  else if (magnitude >= kF16Overflow)
    half = kF16Infinity;
  else if (magnitude < kF16SmallestNormal)
    half = SubnormalF16(magnitude);
  else
    half = ShiftRightRounded(magnitude - (112U << 23), 13);
  return static_cast<uint16_t>(sign | half);
}

uint16_t F32ToBF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > kF32Infinity)
    return static_cast<uint16_t>((bits | kF32QuietBit) >> 16);
  return static_cast<uint16_t>(ShiftRightRounded(bits, 16));
}

}  // namespace tenon
