// InputStatistics: what calibration keeps of the rows that enter a linear layer.
//
// Rows come in chunks; memory does not grow with their number. Owns its sums. Threading: as the
// engine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quant/matrix.h"
#include "quant/matrix_engine.h"

namespace tenon {

// Products of pairs of columns cost columns^2 floats, and as many operations a row.
enum class ColumnProducts : uint8_t { kNone, kAll };

class InputStatistics {
 public:
  struct Options {
    int64_t columns = 0;
    ColumnProducts products = ColumnProducts::kAll;
    // At most so many rows are kept, evenly spread over the `expected_rows` that will come.
    int64_t sample_rows = 0;
    int64_t expected_rows = 0;
  };
  explicit InputStatistics(const Options& options);

  // Adds rows [n, columns]. REQUIRES: columns lie side by side.
  void Add(const MatrixView& rows, MatrixEngine& engine);

  int64_t columns() const { return columns_; }
  int64_t rows() const { return rows_; }
  // max|x| and mean|x| of each column.
  std::span<const float> largest() const { return largest_; }
  std::vector<float> MeanMagnitudes() const;
  // Mean x^2 of each column.
  std::vector<float> MeanSquares() const;
  // Kept rows [count, columns].
  Matrix Sample() const;

  // 2/n sum x x^T with column j of x divided by scales[j] (empty: as it is); the lower triangle
  // only, the rest zero. Divided by the scales it is what the smoothed inputs would have given.
  // REQUIRES: ColumnProducts::kAll.
  Matrix Hessian(std::span<const float> scales) const;

 private:
  void AddProducts(const MatrixView& rows, MatrixEngine& engine);
  void AddRow(const float* row);

  int64_t columns_;
  int64_t rows_ = 0;
  Matrix products_;  // [columns, columns] lower triangle of sum x x^T; empty with kNone
  std::vector<float> largest_;
  std::vector<double> magnitudes_;
  std::vector<double> squares_;
  int64_t sample_limit_;
  int64_t sample_step_;
  std::vector<float> sample_;
};

}  // namespace tenon
