#include "hal/kernel_test_support.h"

namespace tenon::kernel_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct QuantizedRow {
  std::vector<int8_t> q;
  Floats scales;
  Floats sums;
  Bytes bytes;
};

QuantizedRow Quantize(const KernelSet& set, const Floats& x) {
  const auto k = static_cast<int64_t>(x.size());
  QuantizedRow row;
  row.bytes.resize(static_cast<size_t>(ActivationRowBytes(k)));
  set.quantize_row(x.data(), k, row.bytes.data());
  for (int64_t i = 0; i < k; ++i)
    row.q.push_back(std::to_integer<int8_t>(row.bytes[static_cast<size_t>(i)]));
  for (int64_t g = 0; g < k / 16; ++g) {
    row.scales.push_back(LoadAs<float>(row.bytes.data() + k + g * 4));
    row.sums.push_back(LoadAs<float>(row.bytes.data() + k + k / 4 + g * 4));
  }
  return row;
}

TEST(QuantizeRow, MatchesDefinition) {
  Random random(1);
  const Floats x = random.Normals(1536);
  const QuantizedRow row = Quantize(kRefKernelSet, x);
  for (size_t g = 0; g < row.scales.size(); ++g) {
    float largest = 0;
    for (size_t i = g * 16; i < g * 16 + 16; ++i)
      largest = std::max(largest, std::abs(x[i]));
    ASSERT_EQ(row.scales[g], largest / 127.0f);
    int total = 0;
    for (size_t i = g * 16; i < g * 16 + 16; ++i) {
      EXPECT_EQ(row.q[i], static_cast<int>(std::nearbyint(x[i] / row.scales[g])));
      // Half a step, and the rounding of the division.
      EXPECT_NEAR(row.q[i] * row.scales[g], x[i], row.scales[g] * 0.50001f);
      total += row.q[i];
    }
    EXPECT_EQ(row.sums[g], row.scales[g] * static_cast<float>(total));
  }
}

TEST(QuantizeRow, TiesGoToEven) {
  Floats x(16);
  x[0] = 127.0f;  // scale 1
  x[1] = 2.5f;
  x[2] = 3.5f;
  x[3] = -2.5f;
  x[4] = -3.5f;
  x[5] = 0.5f;
  x[6] = -127.0f;
  for (const KernelSet* set : RunnableKernelSets()) {
    if (set->quantize_row == nullptr)
      continue;
    const QuantizedRow row = Quantize(*set, x);
    EXPECT_EQ(std::vector<int8_t>(row.q.begin(), row.q.begin() + 7),
              (std::vector<int8_t>{127, 2, 4, -2, -4, 0, -127}))
        << set->name;
    EXPECT_EQ(row.scales[0], 1.0f);
    EXPECT_EQ(row.sums[0], 0.0f);
  }
}

TEST(QuantizeRow, EdgesOfTheRange) {
  Floats x(16 * 5);
  x[16] = 0x1p-149f;                                 // scale underflows to zero
  std::fill_n(x.begin() + 32, 16, 100 * 0x1p-149f);  // scale is one subnormal unit
  std::fill_n(x.begin() + 48, 16, 190 * 0x1p-149f);  // ratio 190 must be clamped
  std::fill_n(x.begin() + 64, 16, std::numeric_limits<float>::max());
  for (const KernelSet* set : RunnableKernelSets()) {
    if (set->quantize_row == nullptr)
      continue;
    const QuantizedRow row = Quantize(*set, x);
    EXPECT_EQ(row.scales[0], 0.0f);
    EXPECT_EQ(row.scales[1], 0.0f);
    EXPECT_EQ(row.q[16], 0) << set->name;
    EXPECT_EQ(row.q[32], 100) << set->name;
    EXPECT_EQ(row.q[48], 127) << set->name;
    EXPECT_EQ(row.q[64], 127) << set->name;
  }
}

TEST(QuantizeRow, NanReachesTheScaleAndQuantsStayInRange) {
  for (const size_t place : {0, 5, 8, 15}) {
    for (const float bad : {kNan, -kNan, kInfinity}) {
      Floats x(32, 1.0f);
      x[place] = bad;
      for (const KernelSet* set : RunnableKernelSets()) {
        if (set->quantize_row == nullptr)
          continue;
        const QuantizedRow row = Quantize(*set, x);
        EXPECT_FALSE(std::isfinite(row.scales[0])) << set->name;
        EXPECT_EQ(row.scales[1], 1.0f / 127.0f);
        for (const int8_t q : row.q)
          EXPECT_GE(q, -127) << set->name;
      }
    }
  }
}

TEST(QuantizeRow, EverySetEqualsReferenceBitForBit) {
  Random random(2);
  for (const int64_t k : {16, 32, 48, 64, 80, 576, 1536}) {
    Floats x = random.Normals(k);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] *= std::exp2(static_cast<float>(i / 16) * 4.0f - 100.0f);
    const QuantizedRow expected = Quantize(kRefKernelSet, x);
    for (const KernelSet* set : RunnableKernelSets()) {
      if (set->quantize_row == nullptr)
        continue;
      EXPECT_EQ(Quantize(*set, x).bytes, expected.bytes) << set->name << " k " << k;
    }
  }
}

}  // namespace
}  // namespace tenon::kernel_test
