#include "quant/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "quant/blocks.h"
#include "quant/dequantize.h"

namespace tenon {
namespace {

std::vector<float> RoundTrip(DType dtype, const std::vector<float>& values) {
  const int64_t count = static_cast<int64_t>(values.size());
  std::vector<std::byte> row(static_cast<size_t>(DTypeRowBytes(dtype, count)));
  QuantizeRow(dtype, values, row);
  std::vector<float> out(values.size());
  DequantizeRow(dtype, row, out);
  return out;
}

struct ErrorBound {
  DType dtype;
  float steps;  // levels between the ends of the format's range
};

// Half a step, plus the rounding of scale and minimum to f16 (2^-11 of the largest value each). The
// symmetric formats clamp the end that is opposite to the largest value: a whole step.
TEST(Quantize, ErrorIsWithinTheFormatsStep) {
  const ErrorBound bounds[] = {{DType::kQ4_0, 8},
                               {DType::kQ4_1, 15},
                               {DType::kQ5_0, 16},
                               {DType::kQ5_1, 31},
                               {DType::kQ8_0, 127}};
  std::vector<float> values(64);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(static_cast<float>(i) * 1.7F) * 3.0F;
  for (const ErrorBound& bound : bounds) {
    const std::vector<float> out = RoundTrip(bound.dtype, values);
    const float step = 6.0F / bound.steps;
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(out[i], values[i], step * 0.51F + 0.01F) << DTypeName(bound.dtype) << " " << i;
  }
}

TEST(Quantize, HandComputedBlockOfQ4_1) {
  std::vector<float> values(32);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i / 2);  // 0..15: minimum 0, scale 1
  std::vector<std::byte> row(sizeof(BlockQ4_1));
  QuantizeRow(DType::kQ4_1, values, row);
  const auto block = LoadBlock<BlockQ4_1>(row.data(), 0);
  EXPECT_EQ(block.d, 0x3C00);
  EXPECT_EQ(block.m, 0x0000);
  EXPECT_EQ(block.qs[0], 0x80);   // values 0 and 16 are 0 and 8
  EXPECT_EQ(block.qs[15], 0xF7);  // values 15 and 31 are 7 and 15
}

// Whatever stands in a block, its neighbours keep their values.
TEST(Quantize, AnyInputStaysInItsBlock) {
  const float special[] = {
      std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
      -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::max(),
      std::numeric_limits<float>::denorm_min()};
  for (const DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0}) {
    const std::vector<float> plain = RoundTrip(dtype, std::vector<float>(96, 1.0F));
    for (const float value : special) {
      for (const size_t count : {1U, 32U}) {
        std::vector<float> values(96, 1.0F);
        std::fill_n(values.begin() + 32, count, value);
        const std::vector<float> out = RoundTrip(dtype, values);
        for (size_t i = 0; i < 32; ++i) {
          EXPECT_EQ(out[i], plain[i]) << DTypeName(dtype) << " beside " << value;
          EXPECT_EQ(out[64 + i], plain[64 + i]) << DTypeName(dtype) << " beside " << value;
        }
      }
    }
  }
}

TEST(Quantize, KnowsItsFormats) {
  int known = 0;
  for (int i = 0; i < kDTypeCount; ++i)
    known += CanQuantizeTo(static_cast<DType>(i)) ? 1 : 0;
  EXPECT_EQ(known, 8);
  EXPECT_FALSE(CanQuantizeTo(DType::kQ4_K));
  EXPECT_FALSE(CanQuantizeTo(DType::kActI8));
}

TEST(Blocks, SizesAreThoseOfTheDTypeTable) {
  EXPECT_EQ(GetDTypeInfo(DType::kQ4_0).block_bytes, int{sizeof(BlockQ4_0)});
  EXPECT_EQ(GetDTypeInfo(DType::kQ4_1).block_bytes, int{sizeof(BlockQ4_1)});
  EXPECT_EQ(GetDTypeInfo(DType::kQ5_0).block_bytes, int{sizeof(BlockQ5_0)});
  EXPECT_EQ(GetDTypeInfo(DType::kQ5_1).block_bytes, int{sizeof(BlockQ5_1)});
  EXPECT_EQ(GetDTypeInfo(DType::kQ8_0).block_bytes, int{sizeof(BlockQ8_0)});
  EXPECT_EQ(GetDTypeInfo(DType::kQ2_K).block_bytes, int{sizeof(BlockQ2_K)});
  EXPECT_EQ(GetDTypeInfo(DType::kQ3_K).block_bytes, int{sizeof(BlockQ3_K)});
  EXPECT_EQ(GetDTypeInfo(DType::kQ4_K).block_bytes, int{sizeof(BlockQ4_K)});
  EXPECT_EQ(GetDTypeInfo(DType::kQ5_K).block_bytes, int{sizeof(BlockQ5_K)});
  EXPECT_EQ(GetDTypeInfo(DType::kQ6_K).block_bytes, int{sizeof(BlockQ6_K)});
  EXPECT_EQ(GetDTypeInfo(DType::kIQ4_NL).block_bytes, int{sizeof(BlockIQ4_NL)});
  EXPECT_EQ(GetDTypeInfo(DType::kIQ4_XS).block_bytes, int{sizeof(BlockIQ4_XS)});
  EXPECT_EQ(GetDTypeInfo(DType::kMXFP4).block_bytes, int{sizeof(BlockMXFP4)});
}

}  // namespace
}  // namespace tenon
