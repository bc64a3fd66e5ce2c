#include "engine/program/number_convert.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "quant/half.h"

namespace tenon {
namespace {

// A float of 8 or 4 bits: OCP 8-bit floating point (1.0), and the "fnuz" variants of arXiv
// 2206.02915, which have one zero, no infinity, and NaN where minus zero would be.
struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  bool infinity;  // the largest exponent is for infinity and NaN
  bool fnuz;
  double largest;
};

SmallFloat SmallFloatOf(ElementType type) {
  switch (type) {
    case ElementType::kF8E4M3FN:
      return {4, 3, 7, false, false, 448.0};
    case ElementType::kF8E4M3FNUZ:
      return {4, 3, 8, false, true, 240.0};
    case ElementType::kF8E5M2:
      return {5, 2, 15, true, false, 57344.0};
    case ElementType::kF8E5M2FNUZ:
      return {5, 2, 16, false, true, 57344.0};
    default:  // kF4E2M1
      return {2, 1, 1, false, false, 6.0};
  }
}

uint8_t NanBits(ElementType type, const SmallFloat& f) {
  if (f.fnuz)
    return 0x80;
  return type == ElementType::kF4E2M1 ? 0 : uint8_t{0x7F};
}

template <class T, class Wide>
void Load(const std::byte* from, int64_t count, Wide* out) {
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    out[i] = static_cast<Wide>(value);
  }
}

template <class T, class Wide>
void Store(const Wide* from, int64_t count, std::byte* out) {
  for (int64_t i = 0; i < count; ++i) {
    const T value = static_cast<T>(from[i]);
    std::memcpy(out + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
  }
}

uint64_t ToUnsigned(double value) {
  return value >= 9223372036854775808.0 ? static_cast<uint64_t>(value)
                                        : static_cast<uint64_t>(static_cast<int64_t>(value));
}

// In the range of int64_t; out of it and NaN give its ends and 0, where C leaves them undefined.
int64_t ToInteger(double value) {
  constexpr double kEnd = 9223372036854775808.0;
  if (!(value >= -kEnd))
    return std::isnan(value) ? 0 : std::numeric_limits<int64_t>::min();
  return value >= kEnd ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(value);
}

double LoadE8M0(uint8_t bits) {
  return bits == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, bits - 127);
}

// Powers of two only, rounded up at the middle of their logarithm's interval (ONNX's default).
uint8_t StoreE8M0(double value) {
  if (std::isnan(value) || value <= 0.0)
    return value == 0.0 ? uint8_t{0} : uint8_t{255};
  const double rounded = std::ceil(std::log2(value));
  return static_cast<uint8_t>(std::fmin(std::fmax(rounded + 127.0, 0.0), 254.0));
}

}  // namespace

double LoadSmallFloat(ElementType type, uint8_t bits) {
  if (type == ElementType::kF8E8M0)
    return LoadE8M0(bits);
  const SmallFloat f = SmallFloatOf(type);
  const int width = 1 + f.exponent_bits + f.mantissa_bits;
  const int magnitude = bits & ((1 << (width - 1)) - 1);
  const double sign = (bits >> (width - 1) & 1) != 0 ? -1.0 : 1.0;
  if (f.fnuz && bits == 0x80)
    return std::numeric_limits<double>::quiet_NaN();
  const int mantissa = magnitude & ((1 << f.mantissa_bits) - 1);
  const int exponent = magnitude >> f.mantissa_bits;
  if (type == ElementType::kF8E4M3FN && magnitude == 0x7F)
    return std::numeric_limits<double>::quiet_NaN();
  if (f.infinity && exponent == (1 << f.exponent_bits) - 1)
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  const int whole = exponent == 0 ? mantissa : mantissa + (1 << f.mantissa_bits);
  return sign * std::ldexp(whole, (exponent == 0 ? 1 : exponent) - f.bias - f.mantissa_bits);
}

uint8_t StoreSmallFloat(ElementType type, double value, Overflow overflow) {
  if (type == ElementType::kF8E8M0)
    return StoreE8M0(value);
  const SmallFloat f = SmallFloatOf(type);
  const int width = 1 + f.exponent_bits + f.mantissa_bits;
  if (std::isnan(value))
    return NanBits(type, f);
  const unsigned sign = std::signbit(value) ? 1U << (width - 1) : 0U;
  double size = std::fabs(value);
  int exponent = size == 0.0 ? 1 - f.bias : std::ilogb(std::fmin(size, f.largest * 2.0));
  exponent = std::max(exponent, 1 - f.bias);
  size = std::nearbyint(std::ldexp(size, f.mantissa_bits - exponent));
  size = std::ldexp(size, exponent - f.mantissa_bits);
  if (size > f.largest) {
    const bool saturate = overflow == Overflow::kSaturate || type == ElementType::kF4E2M1;
    if (!saturate)
      return static_cast<uint8_t>(f.infinity ? sign | 0x7CU : sign | NanBits(type, f));
    size = f.largest;
  }
  if (size == 0.0)
    return static_cast<uint8_t>(f.fnuz ? 0U : sign);
  exponent = std::max(std::ilogb(size), 1 - f.bias);
  const auto whole = static_cast<unsigned>(std::ldexp(size, f.mantissa_bits - exponent));
  const unsigned hidden = 1U << f.mantissa_bits;
  const auto stored = static_cast<unsigned>(exponent + f.bias);
  const unsigned magnitude = whole < hidden ? whole : (stored << f.mantissa_bits) + whole - hidden;
  return static_cast<uint8_t>(sign | magnitude);
}

void LoadDoubles(ElementType type, const std::byte* from, int64_t count, double* out) {
  switch (type) {
    case ElementType::kF32:
      return Load<float>(from, count, out);
    case ElementType::kF64:
      return Load<double>(from, count, out);
    case ElementType::kF16:
      for (int64_t i = 0; i < count; ++i) {
        uint16_t bits;
        std::memcpy(&bits, from + i * 2, 2);
        out[i] = double{F16ToF32(bits)};
      }
      return;
    case ElementType::kBF16:
      for (int64_t i = 0; i < count; ++i) {
        uint16_t bits;
        std::memcpy(&bits, from + i * 2, 2);
        out[i] = double{BF16ToF32(bits)};
      }
      return;
    case ElementType::kU64:
      return Load<uint64_t>(from, count, out);
    default:
      break;
  }
  if (IsFloat(type)) {
    for (int64_t i = 0; i < count; ++i)
      out[i] = LoadSmallFloat(type, static_cast<uint8_t>(from[i]));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    int64_t value = 0;
    LoadIntegers(type, from + i * ElementBytes(type), 1, &value);
    out[i] = static_cast<double>(value);
  }
}

void StoreDoubles(ElementType type, const double* from, int64_t count, std::byte* out) {
  switch (type) {
    case ElementType::kF32:
      return Store<float>(from, count, out);
    case ElementType::kF64:
      return Store<double>(from, count, out);
    case ElementType::kF16:
      for (int64_t i = 0; i < count; ++i) {
        const uint16_t bits = F32ToF16(static_cast<float>(from[i]));
        std::memcpy(out + i * 2, &bits, 2);
      }
      return;
    case ElementType::kBF16:
      for (int64_t i = 0; i < count; ++i) {
        const uint16_t bits = F32ToBF16(static_cast<float>(from[i]));
        std::memcpy(out + i * 2, &bits, 2);
      }
      return;
    default:
      break;
  }
  for (int64_t i = 0; i < count; ++i) {
    if (IsFloat(type)) {
      out[i] = static_cast<std::byte>(StoreSmallFloat(type, from[i], Overflow::kSaturate));
      continue;
    }
    int64_t value =
        type == ElementType::kU64 ? static_cast<int64_t>(ToUnsigned(from[i])) : ToInteger(from[i]);
    if (type == ElementType::kBool)
      value = from[i] != 0.0 ? 1 : 0;
    StoreIntegers(type, &value, 1, out + i * ElementBytes(type));
  }
}

void LoadIntegers(ElementType type, const std::byte* from, int64_t count, int64_t* out) {
  switch (type) {
    case ElementType::kI64:
    case ElementType::kU64:
      return Load<int64_t>(from, count, out);
    case ElementType::kI32:
      return Load<int32_t>(from, count, out);
    case ElementType::kU32:
      return Load<uint32_t>(from, count, out);
    case ElementType::kI16:
      return Load<int16_t>(from, count, out);
    case ElementType::kU16:
      return Load<uint16_t>(from, count, out);
    case ElementType::kI8:
    case ElementType::kI4:
    case ElementType::kI2:
      return Load<int8_t>(from, count, out);
    default:
      return Load<uint8_t>(from, count, out);
  }
}

void StoreIntegers(ElementType type, const int64_t* from, int64_t count, std::byte* out) {
  switch (type) {
    case ElementType::kI64:
    case ElementType::kU64:
      return Store<int64_t>(from, count, out);
    case ElementType::kI32:
    case ElementType::kU32:
      return Store<int32_t>(from, count, out);
    case ElementType::kI16:
    case ElementType::kU16:
      return Store<int16_t>(from, count, out);
    case ElementType::kBool:
      for (int64_t i = 0; i < count; ++i)
        out[i] = static_cast<std::byte>(from[i] != 0);
      return;
    default:
      break;
  }
  // The low bits, sign-extended to the byte for signed types below a byte.
  const int unused = 8 - ElementBits(type);
  for (int64_t i = 0; i < count; ++i) {
    const auto shifted = static_cast<uint8_t>(static_cast<uint64_t>(from[i]) << unused);
    out[i] = ClassOf(type) == NumberClass::kSigned
                 ? static_cast<std::byte>(static_cast<int8_t>(shifted) >> unused)
                 : static_cast<std::byte>(shifted >> unused);
  }
}

}  // namespace tenon
