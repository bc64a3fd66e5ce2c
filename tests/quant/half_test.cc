#include "quant/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace tenon {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Rounding {
  float value;
  uint16_t f16;
};

TEST(Half, RoundsToNearestEven) {
  const Rounding cases[] = {
      {0.0F, 0x0000},
      {-0.0F, 0x8000},
      {1.0F, 0x3C00},
      {-2.0F, 0xC000},
      {1.0F + 0x1p-11F, 0x3C00},             // tie between 1 and 1 + 2^-10: even
      {1.0F + 3 * 0x1p-11F, 0x3C02},         // tie upwards to even
      {1.0F + 0x1p-11F + 0x1p-20F, 0x3C01},  // just above the tie
      {65504.0F, 0x7BFF},                    // largest finite
      {65519.0F, 0x7BFF},                    // below the tie with infinity
      {65520.0F, 0x7C00},                    // the tie: infinity
      {-kInfinity, 0xFC00},
      {0x1p-14F, 0x0400},  // smallest normal
      {0x1p-24F, 0x0001},  // smallest subnormal
      {0x1p-25F, 0x0000},  // tie with zero: even
      {0x1p-25F + 0x1p-40F, 0x0001},
      {3 * 0x1p-25F, 0x0002},         // tie between 1 and 2 units: even
      {0x1p-14F - 0x1p-25F, 0x0400},  // rounds up into the normal range
      {std::numeric_limits<float>::denorm_min(), 0x0000},
  };
  for (const Rounding& item : cases)
    EXPECT_EQ(F32ToF16(item.value), item.f16) << item.value;
}

TEST(Half, F16RoundTripsExceptNaN) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = F16ToF32(static_cast<uint16_t>(bits));
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(F16ToF32(F32ToF16(value)))) << bits;
    else
      EXPECT_EQ(F32ToF16(value), bits);
  }
}

TEST(Half, NaNStaysNaN) {
  // A payload that only the low bits hold must not turn into infinity.
  const float low_payload = std::bit_cast<float>(0x7F800001U);
  EXPECT_TRUE(std::isnan(F16ToF32(F32ToF16(low_payload))));
  EXPECT_TRUE(std::isnan(BF16ToF32(F32ToBF16(low_payload))));
  EXPECT_EQ(F32ToF16(std::bit_cast<float>(0xFFC00000U)), 0xFE00);
}

TEST(Half, BF16RoundsToNearestEven) {
  EXPECT_EQ(F32ToBF16(1.0F), 0x3F80);
  EXPECT_EQ(F32ToBF16(1.0F + 0x1p-8F), 0x3F80);
  EXPECT_EQ(F32ToBF16(1.0F + 3 * 0x1p-8F), 0x3F82);
  EXPECT_EQ(F32ToBF16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(BF16ToF32(0xC040), -3.0F);
}

}  // namespace
}  // namespace tenon
