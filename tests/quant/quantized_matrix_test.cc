#include "quant/quantized_matrix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "quant/activation_round.h"
#include "quant/compensate.h"
#include "quant/dequantize.h"
#include "quant/random_matrix.h"
#include "quant/smoothing.h"

namespace tenon {
namespace {

using testing::CorrelatedRows;
using testing::RandomMatrix;

struct Format {
  DType dtype;
  int bits;
  double error;  // relative root mean square on normal weights, at most
};

// Bounds some 10% above what searched scales reach; a swapped bit or scale is far outside.
constexpr Format kFormats[] = {
    {DType::kQ8_0, 8, 0.0055}, {DType::kQ4_0, 4, 0.09},  {DType::kQ4_1, 4, 0.08},
    {DType::kQ5_0, 5, 0.045},  {DType::kQ5_1, 5, 0.04},  {DType::kQ2_K, 2, 0.36},
    {DType::kQ3_K, 3, 0.18},   {DType::kQ4_K, 4, 0.085}, {DType::kQ5_K, 5, 0.042},
    {DType::kQ6_K, 6, 0.022},  {DType::kQ4_0, 3, 0.20},
};

std::vector<float> Decode(const QuantizedMatrix& levels, int64_t row) {
  std::vector<std::byte> bytes(
      static_cast<size_t>(DTypeRowBytes(levels.grid().container, levels.columns())));
  levels.EncodeRow(row, bytes);
  std::vector<float> values(static_cast<size_t>(levels.columns()));
  DequantizeRow(levels.grid().container, bytes, values);
  return values;
}

double RelativeError(const Matrix& exact, const QuantizedMatrix& levels) {
  double error = 0.0;
  double size = 0.0;
  for (int64_t i = 0; i < exact.rows(); ++i) {
    for (int64_t j = 0; j < exact.columns(); ++j) {
      const double difference = static_cast<double>(levels.ValueAt(i, j) - exact.At(i, j));
      error += difference * difference;
      size += static_cast<double>(exact.At(i, j)) * static_cast<double>(exact.At(i, j));
    }
  }
  return std::sqrt(error / size);
}

class EveryFormat : public ::testing::TestWithParam<Format> {};

// What Round says is what a reader of the file gets, bit for bit.
TEST_P(EveryFormat, EncodedRowsDecodeToTheRoundedValues) {
  SerialMatrixEngine engine;
  const Format& format = GetParam();
  const Matrix weights = RandomMatrix(5, 768, 21);
  const std::vector<float> ones(768, 1.0F);
  for (const ScaleRule rule : {ScaleRule::kRange, ScaleRule::kSearch}) {
    const auto grid = MakeGrid(format.dtype, format.bits, 96, rule);
    ASSERT_TRUE(grid.ok());
    QuantizedMatrix levels(*grid, 5, 768);
    RoundToNearest(weights, ones, levels, engine);
    for (int64_t row = 0; row < 5; ++row) {
      const std::vector<float> decoded = Decode(levels, row);
      for (int64_t j = 0; j < 768; ++j)
        ASSERT_EQ(decoded[static_cast<size_t>(j)], levels.ValueAt(row, j)) << row << " " << j;
    }
  }
}

TEST_P(EveryFormat, SearchedScalesErrLessThanTheRange) {
  SerialMatrixEngine engine;
  const Format& format = GetParam();
  const Matrix weights = RandomMatrix(40, 512, 22);
  const std::vector<float> ones(512, 1.0F);
  double errors[2];
  for (const ScaleRule rule : {ScaleRule::kRange, ScaleRule::kSearch}) {
    QuantizedMatrix levels(*MakeGrid(format.dtype, format.bits, 32, rule), 40, 512);
    RoundToNearest(weights, ones, levels, engine);
    errors[static_cast<size_t>(rule)] = RelativeError(weights, levels);
  }
  EXPECT_LE(errors[1], errors[0]);
  EXPECT_LE(errors[1], format.error);
}

TEST_P(EveryFormat, HardValuesStayFinite) {
  SerialMatrixEngine engine;
  const Format& format = GetParam();
  Matrix weights(4, 256);
  for (int64_t j = 0; j < 256; ++j) {
    weights.At(1, j) = 3.5F;  // a row of one value
    weights.At(2, j) = j == 7 ? 1e4F : 1e-6F;
    weights.At(3, j) = -1e-30F;
  }
  const std::vector<float> ones(256, 1.0F);
  QuantizedMatrix levels(*MakeGrid(format.dtype, format.bits, 32, ScaleRule::kSearch), 4, 256);
  RoundToNearest(weights, ones, levels, engine);
  for (int64_t row = 0; row < 4; ++row) {
    for (const float value : Decode(levels, row))
      ASSERT_TRUE(std::isfinite(value));
  }
  for (const float value : Decode(levels, 0))
    ASSERT_EQ(value, 0.0F);
  EXPECT_NEAR(levels.ValueAt(1, 100), 3.5F, 0.35F);
}

INSTANTIATE_TEST_SUITE_P(Formats, EveryFormat, ::testing::ValuesIn(kFormats), [](const auto& test) {
  return std::string(DTypeName(test.param.dtype)) + "_" + std::to_string(test.param.bits);
});

TEST(MakeGrid, RefusesWhatNoFormatHolds) {
  EXPECT_FALSE(MakeGrid(DType::kF16, 8, 32, ScaleRule::kRange).ok());
  EXPECT_FALSE(MakeGrid(DType::kQ4_0, 5, 32, ScaleRule::kRange).ok());
  EXPECT_FALSE(MakeGrid(DType::kQ4_0, 4, 48, ScaleRule::kRange).ok());
  EXPECT_EQ(MakeGrid(DType::kQ4_0, 3, 32, ScaleRule::kRange)->low, -4);
  EXPECT_EQ(MakeGrid(DType::kQ4_0, 3, 32, ScaleRule::kRange)->high, 3);
}

// Per-channel 8 bits: every block of a row has the row's scale, absmax / 127.
TEST(QuantizedMatrix, WholeRowsShareOneScale) {
  SerialMatrixEngine engine;
  Matrix weights = RandomMatrix(2, 96, 23);
  weights.At(1, 40) = 12.7F;
  const std::vector<float> ones(96, 1.0F);
  QuantizedMatrix levels(*MakeGrid(DType::kQ8_0, 8, 0, ScaleRule::kRange), 2, 96);
  RoundToNearest(weights, ones, levels, engine);
  EXPECT_NEAR(levels.ScaleAt(1, 0).scale, 0.1F, 1e-4F);
  EXPECT_EQ(levels.LevelAt(1, 40), 127);
  std::vector<std::byte> row(static_cast<size_t>(DTypeRowBytes(DType::kQ8_0, 96)));
  levels.EncodeRow(1, row);
  EXPECT_EQ(row[0], row[34]);
  EXPECT_EQ(row[1], row[35]);
}

TEST(ActivationRound, OneScaleForEachRow) {
  std::vector<float> row = {12.7F, -0.06F, 0.04F, 0.15F};
  RoundActivationRow(row);
  EXPECT_FLOAT_EQ(row[0], 12.7F);
  EXPECT_FLOAT_EQ(row[1], -0.1F);
  EXPECT_FLOAT_EQ(row[2], 0.0F);
  std::vector<float> zeros(8);
  RoundActivationRow(zeros);
  EXPECT_EQ(zeros, std::vector<float>(8));
}

TEST(Smoothing, ExponentZeroIsNoSmoothing) {
  SerialMatrixEngine engine;
  const Matrix x = CorrelatedRows(64, 64, 24);
  const Matrix w = RandomMatrix(16, 64, 25);
  std::vector<float> magnitudes(64);
  for (size_t j = 0; j < 64; ++j)
    magnitudes[j] = 0.1F + static_cast<float>(j);
  const std::vector<float> scales = SmoothingScales(magnitudes, 0.0F);
  EXPECT_EQ(scales, std::vector<float>(64, 1.0F));
  const SmoothingProblem problem{
      x, {&w}, *MakeGrid(DType::kQ8_0, 8, 0, ScaleRule::kRange), ActivationGrid::kPerTokenInt8};
  EXPECT_EQ(SmoothingLoss(problem, scales, engine), SmoothingLoss(problem, {}, engine));
}

TEST(Smoothing, ScalesAreCentredAndFollowTheExponent) {
  const std::vector<float> scales = SmoothingScales(std::vector<float>{1.0F, 16.0F, 4.0F}, 0.5F);
  // 1, 4, 2 over sqrt(4 * 1)
  EXPECT_FLOAT_EQ(scales[0], 0.5F);
  EXPECT_FLOAT_EQ(scales[1], 2.0F);
  EXPECT_FLOAT_EQ(scales[2], 1.0F);
}

TEST(Smoothing, ClosedFormByHand) {
  Matrix w(2, 2);
  w.At(0, 0) = -0.25F;
  w.At(1, 0) = 0.1F;
  w.At(0, 1) = 4.0F;
  const Matrix* weights[] = {&w};
  const auto scales = ClosedFormScales(std::vector<float>{9.0F, 1.0F}, weights, 0.5F);
  EXPECT_FLOAT_EQ(scales[0], 3.0F / 0.5F);
  EXPECT_FLOAT_EQ(scales[1], 1.0F / 2.0F);
}

// A few columns a hundred times larger leave seven bits of the others to nothing; moving their
// range into the weights must bring most of it back.
TEST(Smoothing, SearchFindsScalesAgainstOutliers) {
  SerialMatrixEngine engine;
  Matrix x = RandomMatrix(128, 64, 26);
  for (int64_t i = 0; i < x.rows(); ++i) {
    x.At(i, 5) *= 100.0F;
    x.At(i, 44) *= 60.0F;
  }
  const Matrix w = RandomMatrix(32, 64, 27);
  std::vector<float> largest(64);
  for (int64_t i = 0; i < x.rows(); ++i) {
    for (int64_t j = 0; j < 64; ++j)
      largest[static_cast<size_t>(j)] =
          std::max(largest[static_cast<size_t>(j)], std::fabs(x.At(i, j)));
  }
  const SmoothingProblem problem{
      x, {&w}, *MakeGrid(DType::kQ8_0, 8, 0, ScaleRule::kRange), ActivationGrid::kPerTokenInt8};
  const std::vector<std::vector<float>> magnitudes = {largest};
  const SmoothingChoice choice = SearchSmoothing(problem, magnitudes, engine);
  EXPECT_GT(choice.exponent, 0.2F);
  EXPECT_LT(choice.loss, 0.2 * choice.unsmoothed_loss);
  EXPECT_EQ(choice.loss, SmoothingLoss(problem, choice.scales, engine));
}

}  // namespace
}  // namespace tenon
