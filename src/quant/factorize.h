// The factor of an inverse Hessian that error compensation needs.
//
// For a symmetric positive definite H the upper triangular U with H^-1 = U^T U. It is made without
// forming H^-1: with the order of the variables reversed, H = L L^T gives U = L^-1, reversed again.
// Rows i.. of U hold, for each i, what GPTQ needs: U[i, i:] / U[i, i] is row i of the inverse of
// H[i:, i:] over its diagonal (arXiv 2210.17323, section 3.3). Threading: as the engine.
#pragma once

#include <optional>

#include "quant/matrix.h"
#include "quant/matrix_engine.h"

namespace tenon {

// None when H is not positive definite in float. REQUIRES: h is square; only its lower triangle is
// read.
std::optional<Matrix> InverseFactor(const Matrix& h, MatrixEngine& engine);

struct DampedFactor {
  Matrix u;
  float damping = 0.0F;  // share of mean(diag H) that was added to the diagonal
};

// The factor of H + damping * mean(diag H) * I. Where that is not positive definite the damping
// grows tenfold, as often as it takes. Columns whose H is zero on the diagonal ("dead": the input
// was never anything else) count as uncorrelated with a diagonal of the mean.
DampedFactor FactorWithDamping(const Matrix& h, float damping, MatrixEngine& engine);

}  // namespace tenon
