// Matrices of reproducible random numbers for the quantizers' tests.
#pragma once

#include <cstdint>
#include <random>

#include "quant/matrix.h"

namespace tenon::testing {

inline Matrix RandomMatrix(int64_t rows, int64_t columns, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Matrix matrix(rows, columns);
  for (float& value : matrix.values())
    value = normal(random);
  return matrix;
}

// Rows whose columns depend on each other, with a few columns much larger than the rest.
inline Matrix CorrelatedRows(int64_t rows, int64_t columns, uint32_t seed) {
  Matrix x = RandomMatrix(rows, columns, seed);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 1; j < columns; ++j)
      x.At(i, j) = 0.6F * x.At(i, j - 1) + 0.8F * x.At(i, j);
    for (int64_t j = 3; j < columns; j += 29)
      x.At(i, j) *= 8.0F;
  }
  return x;
}

}  // namespace tenon::testing
