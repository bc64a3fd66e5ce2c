#include "quant/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "quant/blocks.h"
#include "quant/half.h"

namespace tenon {
namespace {

using SmallBlock = std::span<const float, kSmallBlock>;

// floor(x) within 0..highest; 0 for NaN.
uint8_t Level(float x, int highest) {
  if (!(x > 0.0F))
    return 0;
  return static_cast<uint8_t>(std::min(x, static_cast<float>(highest)));
}

float Inverse(float d) {
  return d == 0.0F ? 0.0F : 1.0F / d;
}

// The value of largest magnitude, with its sign; the first one of equals.
float LargestMagnitude(SmallBlock values) {
  float largest = values[0];
  for (const float value : values) {
    if (std::fabs(value) > std::fabs(largest))
      largest = value;
  }
  return largest;
}

// Symmetric formats put the value of largest magnitude on the lowest level, -zero: the levels reach
// one further down than up.
struct Symmetric {
  float d;
  uint8_t levels[kSmallBlock];
};
Symmetric QuantizeSymmetric(SmallBlock values, int zero) {
  Symmetric result;
  result.d = LargestMagnitude(values) / static_cast<float>(-zero);
  const float inverse = Inverse(result.d);
  const float offset = static_cast<float>(zero) + 0.5F;
  for (size_t i = 0; i < values.size(); ++i)
    result.levels[i] = Level(values[i] * inverse + offset, 2 * zero - 1);
  return result;
}

// Affine formats spread the levels 0..highest from the minimum to the maximum.
struct Affine {
  float d;
  float m;
  uint8_t levels[kSmallBlock];
};
Affine QuantizeAffine(SmallBlock values, int highest) {
  Affine result;
  const auto [min, max] = std::minmax_element(values.begin(), values.end());
  result.m = *min;
  result.d = (*max - *min) / static_cast<float>(highest);
  const float inverse = Inverse(result.d);
  for (size_t i = 0; i < values.size(); ++i)
    result.levels[i] = Level((values[i] - result.m) * inverse + 0.5F, highest);
  return result;
}

void PackNibbles(const uint8_t (&levels)[kSmallBlock], uint8_t (&qs)[16]) {
  for (size_t j = 0; j < 16; ++j)
    qs[j] = static_cast<uint8_t>((levels[j] & 0x0F) | (levels[j + 16] & 0x0F) << 4);
}

void PackFifthBits(const uint8_t (&levels)[kSmallBlock], uint8_t (&qh)[4]) {
  for (uint8_t& byte : qh)
    byte = 0;
  for (size_t i = 0; i < kSmallBlock; ++i)
    qh[i / 8] = static_cast<uint8_t>(qh[i / 8] | (levels[i] >> 4) << (i % 8));
}

void Encode(SmallBlock values, BlockQ4_0& block) {
  const Symmetric result = QuantizeSymmetric(values, 8);
  block.d = F32ToF16(result.d);
  PackNibbles(result.levels, block.qs);
}

void Encode(SmallBlock values, BlockQ4_1& block) {
  const Affine result = QuantizeAffine(values, 15);
  block.d = F32ToF16(result.d);
  block.m = F32ToF16(result.m);
  PackNibbles(result.levels, block.qs);
}

void Encode(SmallBlock values, BlockQ5_0& block) {
  const Symmetric result = QuantizeSymmetric(values, 16);
  block.d = F32ToF16(result.d);
  PackFifthBits(result.levels, block.qh);
  PackNibbles(result.levels, block.qs);
}

void Encode(SmallBlock values, BlockQ5_1& block) {
  const Affine result = QuantizeAffine(values, 31);
  block.d = F32ToF16(result.d);
  block.m = F32ToF16(result.m);
  PackFifthBits(result.levels, block.qh);
  PackNibbles(result.levels, block.qs);
}

void Encode(SmallBlock values, BlockQ8_0& block) {
  const float d = std::fabs(LargestMagnitude(values)) / 127.0F;
  const float inverse = Inverse(d);
  block.d = F32ToF16(d);
  for (size_t i = 0; i < values.size(); ++i) {
    const float rounded = std::round(values[i] * inverse);  // halves away from zero
    block.qs[i] =
        std::isnan(rounded) ? int8_t{0} : static_cast<int8_t>(std::clamp(rounded, -127.0F, 127.0F));
  }
}

template <class Block>
void EncodeRow(std::span<const float> values, std::span<std::byte> out) {
  for (size_t i = 0; i < values.size() / kSmallBlock; ++i) {
    Block block;
    Encode(values.subspan(i * kSmallBlock).first<kSmallBlock>(), block);
    std::memcpy(out.data() + i * sizeof(Block), &block, sizeof(Block));
  }
}

template <uint16_t (*kConvert)(float)>
void EncodeHalves(std::span<const float> values, std::span<std::byte> out) {
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = kConvert(values[i]);
    std::memcpy(out.data() + i * sizeof(bits), &bits, sizeof(bits));
  }
}

using EncodeFn = void (*)(std::span<const float>, std::span<std::byte>);

void CopyFloats(std::span<const float> values, std::span<std::byte> out) {
  if (!values.empty())
    std::memcpy(out.data(), values.data(), out.size());
}

// Null for a format without an encoder.
EncodeFn FindEncoder(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return CopyFloats;
    case DType::kF16:
      return EncodeHalves<F32ToF16>;
    case DType::kBF16:
      return EncodeHalves<F32ToBF16>;
    case DType::kQ4_0:
      return EncodeRow<BlockQ4_0>;
    case DType::kQ4_1:
      return EncodeRow<BlockQ4_1>;
    case DType::kQ5_0:
      return EncodeRow<BlockQ5_0>;
    case DType::kQ5_1:
      return EncodeRow<BlockQ5_1>;
    case DType::kQ8_0:
      return EncodeRow<BlockQ8_0>;
    default:
      return nullptr;
  }
}

}  // namespace

bool CanQuantizeTo(DType dtype) {
  return FindEncoder(dtype) != nullptr;
}

void QuantizeRow(DType dtype, std::span<const float> values, std::span<std::byte> out) {
  const EncodeFn encode = FindEncoder(dtype);
  TENON_CHECK(encode != nullptr);
  TENON_CHECK(static_cast<int64_t>(out.size()) ==
              DTypeRowBytes(dtype, static_cast<int64_t>(values.size())));
  encode(values, out);
}

}  // namespace tenon
