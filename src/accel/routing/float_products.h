// Products of float matrices on the kernel set's packed panels, for the router's training.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hal/kernel_set.h"
#include "hal/thread_pool.h"

namespace tenon {

// A matrix [rows, columns], row after row.
struct FloatMatrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<float> values;

  FloatMatrix() = default;
  FloatMatrix(int64_t row_count, int64_t column_count)
      : rows(row_count),
        columns(column_count),
        values(static_cast<size_t>(row_count * column_count)) {}
  std::span<float> row(int64_t r) {
    return std::span(values).subspan(static_cast<size_t>(r * columns),
                                     static_cast<size_t>(columns));
  }
  std::span<const float> row(int64_t r) const {
    return std::span(values).subspan(static_cast<size_t>(r * columns),
                                     static_cast<size_t>(columns));
  }
};

FloatMatrix Transposed(const FloatMatrix& matrix);

// Owns scratch for packed panels. Threading: one thread at a time; work is spread over the pool.
class FloatProducts {
 public:
  FloatProducts(const KernelSet& kernels, ThreadPool& pool) : kernels_(kernels), pool_(pool) {}

  // a b^T, [a.rows, b.rows]. REQUIRES: equal columns.
  FloatMatrix TimesTransposed(const FloatMatrix& a, const FloatMatrix& b);

 private:
  KernelSet kernels_;
  ThreadPool& pool_;
  std::vector<std::byte> panels_;
};

}  // namespace tenon
