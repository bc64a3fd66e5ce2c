#include "quant/input_statistics.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tenon {

namespace {

std::vector<float> MeanOf(const std::vector<double>& sums, int64_t count) {
  std::vector<float> means(sums.size());
  for (size_t j = 0; j < means.size(); ++j)
    means[j] = static_cast<float>(sums[j] / static_cast<double>(std::max<int64_t>(count, 1)));
  return means;
}

}  // namespace

InputStatistics::InputStatistics(const Options& options)
    : columns_(options.columns),
      largest_(static_cast<size_t>(options.columns)),
      magnitudes_(static_cast<size_t>(options.columns)),
      squares_(static_cast<size_t>(options.columns)),
      sample_limit_(options.sample_rows),
      sample_step_(
          std::max<int64_t>(1, options.expected_rows / std::max<int64_t>(1, options.sample_rows))) {
  if (options.products == ColumnProducts::kAll)
    products_ = Matrix(columns_, columns_);
}

// Strips of the lower triangle: half of the products of the whole square.
void InputStatistics::AddProducts(const MatrixView& rows, MatrixEngine& engine) {
  constexpr int64_t kStrip = 256;
  for (int64_t first = 0; first < columns_; first += kStrip) {
    const int64_t count = std::min(kStrip, columns_ - first);
    const MatrixView left = rows.Block(0, rows.rows, first, count).Transposed();
    const MatrixView right = rows.Block(0, rows.rows, 0, first + count);
    engine.AddProduct(1.0F, left, right, products_.view().Block(first, count, 0, first + count));
  }
}

void InputStatistics::AddRow(const float* row) {
  for (size_t j = 0; j < largest_.size(); ++j) {
    const float magnitude = std::fabs(row[j]);
    largest_[j] = std::max(largest_[j], magnitude);
    magnitudes_[j] += static_cast<double>(magnitude);
    squares_[j] += static_cast<double>(row[j]) * static_cast<double>(row[j]);
  }
  const bool keep =
      rows_ % sample_step_ == 0 && static_cast<int64_t>(sample_.size()) < sample_limit_ * columns_;
  if (keep)
    sample_.insert(sample_.end(), row, row + columns_);
  ++rows_;
}

void InputStatistics::Add(const MatrixView& rows, MatrixEngine& engine) {
  TENON_CHECK(rows.columns == columns_ && rows.column_stride == 1);
  if (products_.rows() > 0)
    AddProducts(rows, engine);
  for (int64_t i = 0; i < rows.rows; ++i)
    AddRow(&rows.At(i, 0));
}

std::vector<float> InputStatistics::MeanMagnitudes() const {
  return MeanOf(magnitudes_, rows_);
}

std::vector<float> InputStatistics::MeanSquares() const {
  return MeanOf(squares_, rows_);
}

Matrix InputStatistics::Sample() const {
  Matrix sample(static_cast<int64_t>(sample_.size()) / columns_, columns_);
  std::copy(sample_.begin(), sample_.end(), sample.values().begin());
  return sample;
}

Matrix InputStatistics::Hessian(std::span<const float> scales) const {
  TENON_CHECK(products_.rows() == columns_);
  Matrix h(columns_, columns_);
  const float factor = 2.0F / static_cast<float>(std::max<int64_t>(rows_, 1));
  std::vector<float> inverse(static_cast<size_t>(columns_), 1.0F);
  for (size_t j = 0; j < scales.size(); ++j)
    inverse[j] = 1.0F / scales[j];
  for (int64_t i = 0; i < columns_; ++i) {
    const float row_factor = factor * inverse[static_cast<size_t>(i)];
    for (int64_t j = 0; j <= i; ++j)
      h.At(i, j) = products_.At(i, j) * row_factor * inverse[static_cast<size_t>(j)];
  }
  return h;
}

}  // namespace tenon
