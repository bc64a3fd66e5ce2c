#include "quant/dequantize.h"

#include <bit>

#include "base/check.h"
#include "quant/blocks.h"
#include "quant/half.h"

namespace tenon {
namespace {

int LowNibble(uint8_t byte) {
  return byte & 0x0F;
}
int HighNibble(uint8_t byte) {
  return byte >> 4;
}

// Bit `i` of the 32 fifth bits of Q5_0 and Q5_1, moved to bit 4.
int FifthBit(const uint8_t (&qh)[4], int i) {
  return ((qh[i / 8] >> (i % 8)) & 1) << 4;
}

// Each Decode writes the block's kElements values to out.

void Decode(const BlockQ4_0& block, float* out) {
  const float d = F16ToF32(block.d);
  for (int j = 0; j < 16; ++j) {
    out[j] = d * static_cast<float>(LowNibble(block.qs[j]) - 8);
    out[j + 16] = d * static_cast<float>(HighNibble(block.qs[j]) - 8);
  }
}

void Decode(const BlockQ4_1& block, float* out) {
  const float d = F16ToF32(block.d);
  const float m = F16ToF32(block.m);
  for (int j = 0; j < 16; ++j) {
    out[j] = d * static_cast<float>(LowNibble(block.qs[j])) + m;
    out[j + 16] = d * static_cast<float>(HighNibble(block.qs[j])) + m;
  }
}

void Decode(const BlockQ5_0& block, float* out) {
  const float d = F16ToF32(block.d);
  for (int j = 0; j < 16; ++j) {
    const int low = LowNibble(block.qs[j]) | FifthBit(block.qh, j);
    const int high = HighNibble(block.qs[j]) | FifthBit(block.qh, j + 16);
    out[j] = d * static_cast<float>(low - 16);
    out[j + 16] = d * static_cast<float>(high - 16);
  }
}

void Decode(const BlockQ5_1& block, float* out) {
  const float d = F16ToF32(block.d);
  const float m = F16ToF32(block.m);
  for (int j = 0; j < 16; ++j) {
    const int low = LowNibble(block.qs[j]) | FifthBit(block.qh, j);
    const int high = HighNibble(block.qs[j]) | FifthBit(block.qh, j + 16);
    out[j] = d * static_cast<float>(low) + m;
    out[j + 16] = d * static_cast<float>(high) + m;
  }
}

void Decode(const BlockQ8_0& block, float* out) {
  const float d = F16ToF32(block.d);
  for (int j = 0; j < 32; ++j)
    out[j] = static_cast<float>(block.qs[j]) * d;
}

// The two bits of value i in BlockQ2_K::qs and BlockQ3_K::qs.
int TwoBits(const uint8_t (&qs)[64], int i) {
  return (qs[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
}

void Decode(const BlockQ2_K& block, float* out) {
  const float d = F16ToF32(block.d);
  const float dmin = F16ToF32(block.dmin);
  for (int i = 0; i < kSuperBlock; ++i) {
    const uint8_t scale = block.scales[i / 16];
    const float group_scale = d * static_cast<float>(LowNibble(scale));
    const float group_min = dmin * static_cast<float>(HighNibble(scale));
    out[i] = group_scale * static_cast<float>(TwoBits(block.qs, i)) - group_min;
  }
}

void Decode(const BlockQ3_K& block, float* out) {
  const float d = F16ToF32(block.d);
  for (int i = 0; i < kSuperBlock; ++i) {
    const float group_scale = d * static_cast<float>(ScaleQ3_K(block.scales, i / 16));
    const bool high_bit = ((block.hmask[i % 32] >> (i / 32)) & 1) != 0;
    const int q = TwoBits(block.qs, i) - (high_bit ? 0 : 4);
    out[i] = group_scale * static_cast<float>(q);
  }
}

// The nibble of value i in BlockQ4_K::qs and BlockQ5_K::qs.
int QuarterNibble(const uint8_t (&qs)[128], int i) {
  return (qs[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4)) & 0x0F;
}

void Decode(const BlockQ4_K& block, float* out) {
  const float d = F16ToF32(block.d);
  const float dmin = F16ToF32(block.dmin);
  for (int i = 0; i < kSuperBlock; ++i) {
    const ScaleMin group = ScaleMinQ4_K(block.scales, i / 32);
    const float group_scale = d * static_cast<float>(group.scale);
    const float group_min = dmin * static_cast<float>(group.min);
    out[i] = group_scale * static_cast<float>(QuarterNibble(block.qs, i)) - group_min;
  }
}

void Decode(const BlockQ5_K& block, float* out) {
  const float d = F16ToF32(block.d);
  const float dmin = F16ToF32(block.dmin);
  for (int i = 0; i < kSuperBlock; ++i) {
    const ScaleMin group = ScaleMinQ4_K(block.scales, i / 32);
    const float group_scale = d * static_cast<float>(group.scale);
    const float group_min = dmin * static_cast<float>(group.min);
    const int high = ((block.qh[i % 32] >> (i / 32)) & 1) << 4;
    out[i] = group_scale * static_cast<float>(QuarterNibble(block.qs, i) | high) - group_min;
  }
}

void Decode(const BlockQ6_K& block, float* out) {
  const float d = F16ToF32(block.d);
  for (int i = 0; i < kSuperBlock; ++i) {
    const int group = i / 16;
    const float group_scale = d * static_cast<float>(block.scales[group]);
    const int half = i / 128;
    const int part = i / 32 % 4;  // of the half: values 32*part..32*part+31
    const int low = (block.ql[half * 64 + part % 2 * 32 + i % 32] >> (part / 2 * 4)) & 0x0F;
    const int high = (block.qh[half * 32 + i % 32] >> (part * 2)) & 3;
    out[i] = group_scale * static_cast<float>((low | high << 4) - 32);
  }
}

void Decode(const BlockIQ4_NL& block, float* out) {
  const float d = F16ToF32(block.d);
  for (int j = 0; j < 16; ++j) {
    out[j] = d * static_cast<float>(kIQ4Values[LowNibble(block.qs[j])]);
    out[j + 16] = d * static_cast<float>(kIQ4Values[HighNibble(block.qs[j])]);
  }
}

void Decode(const BlockIQ4_XS& block, float* out) {
  const float d = F16ToF32(block.d);
  for (int g = 0; g < 8; ++g) {
    const float group_scale = d * static_cast<float>(ScaleIQ4_XS(block, g));
    for (int j = 0; j < 16; ++j) {
      const uint8_t pair = block.qs[g * 16 + j];
      out[g * 32 + j] = group_scale * static_cast<float>(kIQ4Values[LowNibble(pair)]);
      out[g * 32 + 16 + j] = group_scale * static_cast<float>(kIQ4Values[HighNibble(pair)]);
    }
  }
}

void Decode(const BlockMXFP4& block, float* out) {
  const float d = ScaleMXFP4(block.e);
  for (int j = 0; j < 16; ++j) {
    out[j] = d * static_cast<float>(kMxfp4Values[LowNibble(block.qs[j])]);
    out[j + 16] = d * static_cast<float>(kMxfp4Values[HighNibble(block.qs[j])]);
  }
}

template <class Block>
void DecodeRow(std::span<const std::byte> row, std::span<float> out) {
  const int64_t blocks = static_cast<int64_t>(out.size()) / Block::kElements;
  for (int64_t i = 0; i < blocks; ++i)
    Decode(LoadBlock<Block>(row.data(), i), out.data() + i * Block::kElements);
}

template <float (*kConvert)(uint16_t)>
void DecodeHalves(std::span<const std::byte> row, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = kConvert(LoadBlock<uint16_t>(row.data(), static_cast<int64_t>(i)));
}

}  // namespace

void DequantizeRow(DType dtype, std::span<const std::byte> row, std::span<float> out) {
  TENON_CHECK(static_cast<int64_t>(row.size()) ==
              DTypeRowBytes(dtype, static_cast<int64_t>(out.size())));
  switch (dtype) {
    case DType::kF32:
      if (!out.empty())
        std::memcpy(out.data(), row.data(), row.size());
      return;
    case DType::kF16:
      return DecodeHalves<F16ToF32>(row, out);
    case DType::kBF16:
      return DecodeHalves<BF16ToF32>(row, out);
    case DType::kQ4_0:
      return DecodeRow<BlockQ4_0>(row, out);
    case DType::kQ4_1:
      return DecodeRow<BlockQ4_1>(row, out);
    case DType::kQ5_0:
      return DecodeRow<BlockQ5_0>(row, out);
    case DType::kQ5_1:
      return DecodeRow<BlockQ5_1>(row, out);
    case DType::kQ8_0:
      return DecodeRow<BlockQ8_0>(row, out);
    case DType::kQ2_K:
      return DecodeRow<BlockQ2_K>(row, out);
    case DType::kQ3_K:
      return DecodeRow<BlockQ3_K>(row, out);
    case DType::kQ4_K:
      return DecodeRow<BlockQ4_K>(row, out);
    case DType::kQ5_K:
      return DecodeRow<BlockQ5_K>(row, out);
    case DType::kQ6_K:
      return DecodeRow<BlockQ6_K>(row, out);
    case DType::kIQ4_NL:
      return DecodeRow<BlockIQ4_NL>(row, out);
    case DType::kIQ4_XS:
      return DecodeRow<BlockIQ4_XS>(row, out);
    case DType::kMXFP4:
      return DecodeRow<BlockMXFP4>(row, out);
    case DType::kI32:
    case DType::kActI8:
    case DType::kActI16:
      break;
  }
  TENON_CHECK(false && "not a floating-point type that files hold");
}

}  // namespace tenon
