// Quantizing a matrix: each weight on its own, or with the errors of the columns before it made up
// for (GPTQ, arXiv 2210.17323).
//
// Threading: as the engine.
#pragma once

#include <cstdint>
#include <span>

#include "quant/matrix.h"
#include "quant/matrix_engine.h"
#include "quant/quantized_matrix.h"

namespace tenon {

// Rounds every weight of `weights` to the nearest level. `importance` [columns] weighs squared
// errors in the search for scales.
void RoundToNearest(const Matrix& weights, std::span<const float> importance, QuantizedMatrix& out,
                    MatrixEngine& engine);

// Columns in which errors are made up for at once; later columns follow in one product.
inline constexpr int64_t kCompensationBlock = 128;

// Quantizes column after column. For the error e = (w - q) / U[i, i] of a row's column i, the
// columns after it get w[j] -= e * U[i, j], with U of quant/factorize.h. A group's scale is chosen
// when its first column is reached, from weights with all errors before it made up for, so it is
// never stale; only the factors of a super block are chosen up to 256 columns ahead. `weights`
// becomes what `out` stands for. Returns the sum of (w - q)^2 / U[i, i]^2 / 2.
double QuantizeCompensated(Matrix& weights, const Matrix& u, QuantizedMatrix& out,
                           MatrixEngine& engine);

}  // namespace tenon
