// Matrix: owned row-major floats, and views of such memory with any strides.
//
// Threading: as the memory is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

// Element (i, j) lies at data[i * row_stride + j * column_stride]. Borrows the memory.
template <class T>
struct BasicMatrixView {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t row_stride = 0;
  int64_t column_stride = 1;

  T& At(int64_t row, int64_t column) const {
    return data[row * row_stride + column * column_stride];
  }
  BasicMatrixView Transposed() const { return {data, columns, rows, column_stride, row_stride}; }
  // Rows [row, row + row_count) and columns [column, column + column_count).
  BasicMatrixView Block(int64_t row, int64_t row_count, int64_t column,
                        int64_t column_count) const {
    return {data + row * row_stride + column * column_stride, row_count, column_count, row_stride,
            column_stride};
  }
  operator BasicMatrixView<const T>() const {
    return {data, rows, columns, row_stride, column_stride};
  }
};

using MatrixView = BasicMatrixView<const float>;
using MutableMatrixView = BasicMatrixView<float>;

class Matrix {
 public:
  Matrix() = default;
  // Zeros.
  Matrix(int64_t rows, int64_t columns)
      : rows_(rows), columns_(columns), values_(static_cast<size_t>(rows * columns)) {}

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  std::span<float> values() { return values_; }
  std::span<const float> values() const { return values_; }
  float* Row(int64_t row) { return values_.data() + row * columns_; }
  const float* Row(int64_t row) const { return values_.data() + row * columns_; }
  std::span<const float> RowSpan(int64_t row) const {
    return {Row(row), static_cast<size_t>(columns_)};
  }
  float& At(int64_t row, int64_t column) { return Row(row)[column]; }
  float At(int64_t row, int64_t column) const { return Row(row)[column]; }

  MatrixView view() const { return {values_.data(), rows_, columns_, columns_, 1}; }
  MutableMatrixView view() { return {values_.data(), rows_, columns_, columns_, 1}; }

 private:
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  std::vector<float> values_;
};

}  // namespace tenon
