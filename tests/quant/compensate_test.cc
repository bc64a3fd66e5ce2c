#include "quant/compensate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "quant/dequantize.h"
#include "quant/factorize.h"
#include "quant/input_statistics.h"
#include "quant/random_matrix.h"
#include "quant/refine.h"

namespace tenon {
namespace {

using testing::CorrelatedRows;
using testing::RandomMatrix;

GridSpec Grid(DType container, int bits, int64_t group, ScaleRule rule = ScaleRule::kRange) {
  auto grid = MakeGrid(container, bits, group, rule);
  EXPECT_TRUE(grid.ok());
  return *grid;
}

InputStatistics StatisticsOf(const Matrix& rows, int64_t chunk) {
  SerialMatrixEngine engine;
  InputStatistics statistics({rows.columns(), ColumnProducts::kAll, 16, rows.rows()});
  for (int64_t first = 0; first < rows.rows(); first += chunk) {
    const int64_t count = std::min(chunk, rows.rows() - first);
    statistics.Add(rows.view().Block(first, count, 0, rows.columns()), engine);
  }
  return statistics;
}

Matrix HessianOf(const Matrix& rows) {
  return StatisticsOf(rows, rows.rows()).Hessian({});
}

// Gauss-Jordan in double: an inverse that shares no code with the factorization.
std::vector<std::vector<double>> Inverse(std::vector<std::vector<double>> a) {
  const size_t n = a.size();
  std::vector<std::vector<double>> b(n, std::vector<double>(n));
  for (size_t i = 0; i < n; ++i)
    b[i][i] = 1.0;
  for (size_t p = 0; p < n; ++p) {
    const double pivot = a[p][p];
    for (size_t j = 0; j < n; ++j) {
      a[p][j] /= pivot;
      b[p][j] /= pivot;
    }
    for (size_t i = 0; i < n; ++i) {
      const double factor = i == p ? 0.0 : a[i][p];
      for (size_t j = 0; j < n; ++j) {
        a[i][j] -= factor * a[p][j];
        b[i][j] -= factor * b[p][j];
      }
    }
  }
  return b;
}

std::vector<std::vector<double>> Damped(const Matrix& lower, double share) {
  const auto n = static_cast<size_t>(lower.rows());
  std::vector<std::vector<double>> h(n, std::vector<double>(n));
  double mean = 0.0;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j)
      h[i][j] = h[j][i] = lower.At(static_cast<int64_t>(i), static_cast<int64_t>(j));
    mean += h[i][i] / static_cast<double>(n);
  }
  for (size_t i = 0; i < n; ++i)
    h[i][i] += share * mean;
  return h;
}

// Optimal brain surgeon as it is written: after each column the inverse of what remains is made
// anew, and all later weights move by -(w - q) / inverse[0][0] * inverse[0][..].
Matrix NaiveSurgeon(Matrix w, const Matrix& lower, double share, QuantizedMatrix& levels) {
  const auto h = Damped(lower, share);
  const std::vector<float> ones(static_cast<size_t>(w.columns()), 1.0F);
  for (int64_t i = 0; i < w.columns(); ++i) {
    std::vector<std::vector<double>> rest;
    for (size_t r = static_cast<size_t>(i); r < h.size(); ++r)
      rest.emplace_back(h[r].begin() + i, h[r].end());
    const auto inverse = Inverse(rest);
    for (int64_t row = 0; row < w.rows(); ++row) {
      if (i % levels.group() == 0)
        levels.BeginGroup(row, i, std::as_const(w).RowSpan(row), ones);
      const float rounded = levels.Round(row, i, w.At(row, i));
      const double error = static_cast<double>(w.At(row, i) - rounded) / inverse[0][0];
      for (int64_t j = i + 1; j < w.columns(); ++j)
        w.At(row, j) -= static_cast<float>(error * inverse[0][static_cast<size_t>(j - i)]);
      w.At(row, i) = rounded;
    }
  }
  return w;
}

double OutputError(const Matrix& x, const Matrix& exact, const Matrix& rounded) {
  Matrix difference = rounded;
  for (size_t i = 0; i < difference.values().size(); ++i)
    difference.values()[i] -= exact.values()[i];
  Matrix outputs(x.rows(), exact.rows());
  SerialMatrixEngine().AddProduct(1.0F, x.view(), std::as_const(difference).view().Transposed(),
                                  outputs.view());
  double sum = 0.0;
  for (const float value : std::as_const(outputs).values())
    sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

Matrix ValuesOf(const QuantizedMatrix& levels) {
  Matrix values(levels.rows(), levels.columns());
  for (int64_t i = 0; i < values.rows(); ++i) {
    for (int64_t j = 0; j < values.columns(); ++j)
      values.At(i, j) = levels.ValueAt(i, j);
  }
  return values;
}

TEST(Factorize, InverseFactorTimesItselfIsTheInverse) {
  SerialMatrixEngine engine;
  const Matrix h = HessianOf(CorrelatedRows(300, 150, 1));  // more than two blocks
  const auto damped = Damped(h, 0.01);
  const DampedFactor factor = FactorWithDamping(h, 0.01F, engine);
  EXPECT_FLOAT_EQ(factor.damping, 0.01F);
  const auto inverse = Inverse(damped);
  for (int64_t i = 0; i < 150; ++i) {
    for (int64_t j = 0; j < 150; ++j) {
      double sum = 0.0;
      for (int64_t k = 0; k <= std::min(i, j); ++k)
        sum += static_cast<double>(factor.u.At(k, i)) * static_cast<double>(factor.u.At(k, j));
      const double size = std::sqrt(inverse[static_cast<size_t>(i)][static_cast<size_t>(i)] *
                                    inverse[static_cast<size_t>(j)][static_cast<size_t>(j)]);
      ASSERT_NEAR(sum, inverse[static_cast<size_t>(i)][static_cast<size_t>(j)], 1e-4 * size);
      ASSERT_TRUE(j >= i || factor.u.At(i, j) == 0.0F);
    }
  }
}

TEST(Factorize, DampingGrowsUntilPositiveDefinite) {
  SerialMatrixEngine engine;
  Matrix h(2, 2);  // eigenvalues 1 + 5 and 1 - 5
  h.At(0, 0) = h.At(1, 1) = 1.0F;
  h.At(1, 0) = 5.0F;
  EXPECT_FALSE(InverseFactor(h, engine).has_value());
  EXPECT_FLOAT_EQ(FactorWithDamping(h, 0.01F, engine).damping, 10.0F);
  EXPECT_GT(FactorWithDamping(h, 0.0F, engine).damping, 4.0F);
}

TEST(Factorize, DeadAndBrokenColumnsStillGiveAFactor) {
  SerialMatrixEngine engine;
  Matrix rows = CorrelatedRows(64, 8, 2);
  for (int64_t i = 0; i < rows.rows(); ++i)
    rows.At(i, 3) = 0.0F;
  const DampedFactor factor = FactorWithDamping(HessianOf(rows), 0.01F, engine);
  for (const float value : std::as_const(factor.u).values())
    EXPECT_TRUE(std::isfinite(value));
  for (int64_t j = 4; j < 8; ++j)
    EXPECT_EQ(factor.u.At(3, j), 0.0F);  // no other column makes up for it
  Matrix broken(3, 3);
  broken.At(1, 1) = std::nanf("");
  const DampedFactor none = FactorWithDamping(broken, 0.01F, engine);
  EXPECT_EQ(none.u.rows(), 3);
  for (const float value : none.u.values())
    EXPECT_TRUE(std::isfinite(value));
}

TEST(InputStatistics, ChunksGiveWhatAllRowsAtOnceGive) {
  const Matrix rows = CorrelatedRows(200, 96, 3);
  const InputStatistics whole = StatisticsOf(rows, 200);
  const InputStatistics pieces = StatisticsOf(rows, 17);
  const Matrix expected = whole.Hessian({});
  const Matrix found = pieces.Hessian({});
  for (int64_t i = 0; i < 96; ++i) {
    for (int64_t j = 0; j <= i; ++j)
      ASSERT_NEAR(found.At(i, j), expected.At(i, j), 1e-3F);
  }
  EXPECT_EQ(whole.MeanMagnitudes(), pieces.MeanMagnitudes());
  EXPECT_EQ(whole.rows(), 200);
  EXPECT_EQ(whole.Sample().rows(), 16);
  EXPECT_EQ(whole.Sample().At(1, 5), rows.At(12, 5));  // every 200 / 16 = 12th row
}

TEST(InputStatistics, ScaledHessianIsThatOfScaledRows) {
  Matrix rows = CorrelatedRows(50, 32, 4);
  std::vector<float> scales(32);
  for (size_t j = 0; j < scales.size(); ++j)
    scales[j] = 0.5F + static_cast<float>(j);
  const Matrix found = StatisticsOf(rows, 50).Hessian(scales);
  for (int64_t i = 0; i < rows.rows(); ++i) {
    for (int64_t j = 0; j < 32; ++j)
      rows.At(i, j) /= scales[static_cast<size_t>(j)];
  }
  const Matrix expected = HessianOf(rows);
  for (int64_t i = 0; i < 32; ++i) {
    for (int64_t j = 0; j <= i; ++j)
      ASSERT_NEAR(found.At(i, j), expected.At(i, j), 1e-4F * (1.0F + std::fabs(expected.At(i, j))));
  }
}

// Blocks of 128 columns and one product for what follows, against the naive algorithm.
TEST(QuantizeCompensated, BlockedEqualsNaiveSurgeon) {
  SerialMatrixEngine engine;
  const Matrix h = HessianOf(CorrelatedRows(400, 160, 5));
  const Matrix weights = RandomMatrix(3, 160, 6);
  for (const GridSpec& grid : {Grid(DType::kQ4_0, 4, 32), Grid(DType::kQ8_0, 8, 0),
                               Grid(DType::kQ4_1, 4, 32), Grid(DType::kQ4_0, 3, 160)}) {
    QuantizedMatrix naive(grid, 3, 160);
    const Matrix expected = NaiveSurgeon(weights, h, 0.01, naive);
    QuantizedMatrix blocked(grid, 3, 160);
    Matrix found = weights;
    const DampedFactor factor = FactorWithDamping(h, 0.01F, engine);
    const double loss = QuantizeCompensated(found, factor.u, blocked, engine);
    EXPECT_GT(loss, 0.0);
    int64_t different = 0;
    for (int64_t row = 0; row < 3; ++row) {
      for (int64_t j = 0; j < 160; ++j)
        different += blocked.LevelAt(row, j) != naive.LevelAt(row, j) ? 1 : 0;
    }
    // Rounding in float may tip a value that lies between two levels; what follows it then differs.
    EXPECT_LE(different, grid.container == DType::kQ8_0 ? 24 : 8) << DTypeName(grid.container);
  }
}

TEST(QuantizeCompensated, LeavesLessOutputErrorThanRounding) {
  SerialMatrixEngine engine;
  const Matrix x = CorrelatedRows(512, 256, 7);
  const Matrix h = HessianOf(x);
  const DampedFactor factor = FactorWithDamping(h, 0.01F, engine);
  const Matrix weights = RandomMatrix(8, 256, 8);
  const std::vector<float> ones(256, 1.0F);
  for (const GridSpec& grid :
       {Grid(DType::kQ4_0, 4, 32), Grid(DType::kQ4_0, 4, 128), Grid(DType::kQ8_0, 8, 0),
        Grid(DType::kQ4_K, 4, 0), Grid(DType::kQ3_K, 3, 0), Grid(DType::kQ6_K, 6, 0)}) {
    QuantizedMatrix rounded(grid, 8, 256);
    RoundToNearest(weights, ones, rounded, engine);
    QuantizedMatrix compensated(grid, 8, 256);
    Matrix work = weights;
    QuantizeCompensated(work, factor.u, compensated, engine);
    EXPECT_LT(OutputError(x, weights, ValuesOf(compensated)),
              0.7 * OutputError(x, weights, ValuesOf(rounded)))
        << DTypeName(grid.container);
    for (int64_t j = 0; j < 256; ++j)
      ASSERT_EQ(work.At(2, j), compensated.ValueAt(2, j));
  }
}

// A group that begins inside a block must see the weights as the columns before it left them.
TEST(QuantizeCompensated, GroupScalesAreNotStaleInsideABlock) {
  SerialMatrixEngine engine;
  const Matrix h = HessianOf(CorrelatedRows(300, 128, 9));
  const DampedFactor factor = FactorWithDamping(h, 0.01F, engine);
  const Matrix weights = RandomMatrix(1, 128, 10);
  QuantizedMatrix levels(Grid(DType::kQ4_0, 4, 32), 1, 128);
  Matrix work = weights;
  QuantizeCompensated(work, factor.u, levels, engine);
  // The weights of the second group after the first 32 columns, by hand.
  std::vector<float> w(weights.values().begin(), weights.values().end());
  for (int64_t i = 0; i < 32; ++i) {
    const float error = (w[static_cast<size_t>(i)] - levels.ValueAt(0, i)) / factor.u.At(i, i);
    for (int64_t j = i + 1; j < 128; ++j)
      w[static_cast<size_t>(j)] -= error * factor.u.At(i, j);
  }
  float largest = 0.0F;
  for (size_t j = 32; j < 64; ++j)
    largest = std::fabs(w[j]) > std::fabs(largest) ? w[j] : largest;
  EXPECT_NEAR(levels.ScaleAt(0, 32).scale, largest / -8.0F, std::fabs(largest) / 8000.0F);
}

TEST(Refine, LowersTheErrorAndKeepsLevels) {
  SerialMatrixEngine engine;
  const Matrix x = CorrelatedRows(512, 128, 11);
  const Matrix h = HessianOf(x);
  const Matrix weights = RandomMatrix(6, 128, 12);
  const std::vector<float> ones(128, 1.0F);
  QuantizedMatrix levels(Grid(DType::kQ4_0, 4, 32), 6, 128);
  RoundToNearest(weights, ones, levels, engine);
  const double before = OutputError(x, weights, ValuesOf(levels));
  const int level = levels.LevelAt(3, 50);
  RefineScales(weights, h, {20, 1e-2F, 1e-4F}, levels, engine);
  EXPECT_LT(OutputError(x, weights, ValuesOf(levels)), 0.99 * before);
  EXPECT_EQ(levels.LevelAt(3, 50), level);
}

}  // namespace
}  // namespace tenon
