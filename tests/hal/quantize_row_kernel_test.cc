#include "hal/kernel_test_support.h"
#include "hal/pack.h"
#include "quant/activation_round.h"
#include "quant/quantized_matrix.h"

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

QuantizedRow QuantizeBy(QuantizeRowFn quantize, const Floats& x) {
  const auto k = static_cast<int64_t>(x.size());
  QuantizedRow row;
  row.bytes.resize(static_cast<size_t>(ActivationRowBytes(k)));
  quantize(x.data(), k, row.bytes.data());
  for (int64_t i = 0; i < k; ++i)
    row.q.push_back(std::to_integer<int8_t>(row.bytes[static_cast<size_t>(i)]));
  for (int64_t g = 0; g < k / 16; ++g) {
    row.scales.push_back(LoadAs<float>(row.bytes.data() + k + g * 4));
    row.sums.push_back(LoadAs<float>(row.bytes.data() + k + k / 4 + g * 4));
  }
  return row;
}

QuantizedRow Quantize(const KernelSet& set, const Floats& x) {
  return QuantizeBy(set.quantize_row, x);
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

TEST(QuantizeRowPerToken, IsTheRoundingThatQuantizersReckonWith) {
  Random random(3);
  for (const float size : {1.0f, 1e-7f, 0.0f}) {
    Floats x = random.Normals(576);
    for (float& value : x)
      value *= size;
    Floats rounded = x;
    RoundActivationRow(rounded);
    for (const KernelSet* set : RunnableKernelSets()) {
      if (set->quantize_row_per_token == nullptr)
        continue;
      const QuantizedRow row = QuantizeBy(set->quantize_row_per_token, x);
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(row.scales[i / 16], row.scales[0]);
        ASSERT_EQ(static_cast<float>(row.q[i]) * row.scales[0], rounded[i]) << set->name;
      }
    }
  }
}

TEST(QuantizeRowPerToken, EverySetEqualsReferenceBitForBit) {
  Random random(4);
  for (const int64_t k : {16, 48, 576, 1536}) {
    for (const float bad : {0.0f, kNan, -kInfinity}) {
      Floats x = random.Normals(k);
      x.back() = bad;
      const QuantizedRow expected = QuantizeBy(kRefKernelSet.quantize_row_per_token, x);
      EXPECT_EQ(std::isfinite(expected.scales[0]), bad == 0.0f);
      for (const KernelSet* set : RunnableKernelSets()) {
        if (set->quantize_row_per_token == nullptr)
          continue;
        EXPECT_EQ(QuantizeBy(set->quantize_row_per_token, x).bytes, expected.bytes) << set->name;
      }
    }
  }
}

// W8A8: weights with one scale a row, activations with one scale a row, multiplied by the integer
// kernels, against the same levels in double. What may differ is the rounding of k / 16 products
// of scales and sums, and of as many zero-point terms, each at most 128 d s sum|q|.
TEST(QuantizeRowPerToken, IntegerKernelsGiveTheProductOfTheRoundedRows) {
  constexpr int64_t kRows = 16;
  constexpr int64_t kWidth = 576;
  Random random(5);
  const Floats x = random.Normals(kWidth);
  Bytes file(static_cast<size_t>(kRows * DTypeRowBytes(DType::kQ8_0, kWidth)));
  const GridSpec grid = *MakeGrid(DType::kQ8_0, 8, 0, ScaleRule::kRange);
  const Floats importance(kWidth, 1.0f);
  QuantizedMatrix levels(grid, kRows, kWidth);
  for (int64_t r = 0; r < kRows; ++r) {
    const Floats w = random.Normals(kWidth);
    levels.BeginGroup(r, 0, w, importance);
    for (int64_t i = 0; i < kWidth; ++i)
      levels.Round(r, i, w[static_cast<size_t>(i)]);
    const int64_t bytes = DTypeRowBytes(DType::kQ8_0, kWidth);
    levels.EncodeRow(
        r, std::span(file).subspan(static_cast<size_t>(r * bytes), static_cast<size_t>(bytes)));
  }
  Bytes panel(static_cast<size_t>(PackedPanelBytes(PackedKind::kU8S32, kWidth)));
  PackPanel({DType::kQ8_0, file.data(), kRows, kWidth}, panel);
  for (const KernelSet* set : RunnableKernelSets()) {
    const GemmFn gemm = set->gemm[static_cast<size_t>(PackedKind::kU8S32)];
    if (set->quantize_row_per_token == nullptr || gemm == nullptr)
      continue;
    const QuantizedRow row = QuantizeBy(set->quantize_row_per_token, x);
    Floats out(kRows);
    gemm({panel.data(), kWidth, row.bytes.data(), static_cast<int64_t>(row.bytes.size()), 1,
          nullptr, out.data(), kRows});
    for (int64_t r = 0; r < kRows; ++r) {
      double exact = 0.0;
      double largest_terms = 0.0;
      const double scale = static_cast<double>(levels.ScaleAt(r, 0).scale) * row.scales[0];
      for (int64_t i = 0; i < kWidth; ++i) {
        exact += scale * levels.LevelAt(r, i) * row.q[static_cast<size_t>(i)];
        largest_terms += scale * 256.0 * std::abs(row.q[static_cast<size_t>(i)]);
      }
      const double terms = 2.0 * kWidth / 16.0 + 2.0;
      EXPECT_NEAR(out[static_cast<size_t>(r)], exact, 0x1p-24 * terms * largest_terms) << set->name;
    }
  }
}

}  // namespace
}  // namespace tenon::kernel_test
