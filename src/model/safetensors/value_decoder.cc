#include "model/safetensors/value_decoder.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "quant/half.h"

namespace tenon {
namespace {

template <class T>
T Load(std::span<const std::byte> bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

float F8E4M3ToF32(uint8_t bits) {
  const int exponent = bits >> 3 & 0xF;
  const int mantissa = bits & 7;
  const float sign = (bits & 0x80) != 0 ? -1.0F : 1.0F;
  if (exponent == 0xF && mantissa == 7)
    return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0)
    return sign * std::ldexp(static_cast<float>(mantissa), -9);
  return sign * std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
}

// The upper half of an F16.
float F8E5M2ToF32(uint8_t bits) {
  return F16ToF32(static_cast<uint16_t>(bits << 8));
}

// e = 255 is NaN.
float F8E8M0ToF32(uint8_t bits) {
  return bits == 0xFF ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0F, bits - 127);
}

using Table = std::array<float, 256>;

// All values of an 8-bit type: a matrix has millions.
template <float (*decode)(uint8_t)>
const Table& TableOf() {
  static const Table table = [] {
    Table made{};
    for (size_t bits = 0; bits < made.size(); ++bits)
      made[bits] = decode(static_cast<uint8_t>(bits));
    return made;
  }();
  return table;
}

void LookUp(const Table& table, std::span<const std::byte> bytes, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = table[static_cast<uint8_t>(bytes[i])];
}

template <class T, class Convert>
void ConvertEach(std::span<const std::byte> bytes, std::span<float> out, const Convert& convert) {
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = convert(Load<T>(bytes, i));
}

}  // namespace

bool HasFloatValues(SafetensorsType type) {
  switch (type) {
    case SafetensorsType::kF8E4M3:
    case SafetensorsType::kF8E5M2:
    case SafetensorsType::kF8E8M0:
    case SafetensorsType::kF16:
    case SafetensorsType::kBF16:
    case SafetensorsType::kF32:
    case SafetensorsType::kF64:
      return true;
    default:
      return false;
  }
}

void DecodeValues(SafetensorsType type, std::span<const std::byte> bytes, std::span<float> out) {
  TENON_CHECK(HasFloatValues(type));
  TENON_CHECK(bytes.size() / GetSafetensorsTypeInfo(type).bytes >= out.size());
  switch (type) {
    case SafetensorsType::kF8E4M3:
      return LookUp(TableOf<F8E4M3ToF32>(), bytes, out);
    case SafetensorsType::kF8E5M2:
      return LookUp(TableOf<F8E5M2ToF32>(), bytes, out);
    case SafetensorsType::kF8E8M0:
      return LookUp(TableOf<F8E8M0ToF32>(), bytes, out);
    case SafetensorsType::kF16:
      return ConvertEach<uint16_t>(bytes, out, F16ToF32);
    case SafetensorsType::kBF16:
      return ConvertEach<uint16_t>(bytes, out, BF16ToF32);
    case SafetensorsType::kF64:
      return ConvertEach<double>(bytes, out,
                                 [](double value) { return static_cast<float>(value); });
    default:
      return ConvertEach<float>(bytes, out, [](float value) { return value; });
  }
}

}  // namespace tenon
