#include "quant/factorize.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace tenon {
namespace {

// Columns factorized together: the part that runs without the engine's products is this share of
// the work.
constexpr int64_t kBlock = 64;

// Factors the diagonal block of `size` at `first` in place, in double. False when it is not
// positive definite.
bool FactorDiagonal(Matrix& a, int64_t first, int64_t size) {
  for (int64_t j = first; j < first + size; ++j) {
    for (int64_t i = j; i < first + size; ++i) {
      double sum = a.At(i, j);
      for (int64_t k = first; k < j; ++k)
        sum -= static_cast<double>(a.At(i, k)) * static_cast<double>(a.At(j, k));
      if (i > j) {
        a.At(i, j) = static_cast<float>(sum / static_cast<double>(a.At(j, j)));
        continue;
      }
      const auto root = static_cast<float>(std::sqrt(sum));
      if (!(sum > 0.0) || !std::isnormal(root))
        return false;
      a.At(j, j) = root;
    }
  }
  return true;
}

// The rows below the diagonal block: A21 becomes A21 L11^-T.
void SolveBelow(Matrix& a, int64_t first, int64_t size, MatrixEngine& engine) {
  const int64_t below = first + size;
  engine.ForRanges(a.rows() - below, [&](int64_t begin, int64_t end) {
    for (int64_t i = below + begin; i < below + end; ++i) {
      float* row = a.Row(i);
      for (int64_t j = first; j < below; ++j) {
        double sum = row[j];
        for (int64_t k = first; k < j; ++k)
          sum -= static_cast<double>(row[k]) * static_cast<double>(a.At(j, k));
        row[j] = static_cast<float>(sum / static_cast<double>(a.At(j, j)));
      }
    }
  });
}

// A22 -= A21 A21^T, lower triangle, in strips of rows.
void UpdateTrailing(Matrix& a, int64_t first, int64_t size, MatrixEngine& engine) {
  constexpr int64_t kStrip = 256;
  const int64_t below = first + size;
  for (int64_t row = below; row < a.rows(); row += kStrip) {
    const int64_t count = std::min(kStrip, a.rows() - row);
    const MatrixView left = a.view().Block(row, count, first, size);
    const MatrixView right = a.view().Block(below, row + count - below, first, size);
    engine.AddProduct(-1.0F, left, right.Transposed(),
                      a.view().Block(row, count, below, row + count - below));
  }
}

// The lower triangle of `a` becomes L with a = L L^T.
bool Cholesky(Matrix& a, MatrixEngine& engine) {
  for (int64_t first = 0; first < a.rows(); first += kBlock) {
    const int64_t size = std::min(kBlock, a.rows() - first);
    if (!FactorDiagonal(a, first, size))
      return false;
    SolveBelow(a, first, size, engine);
    UpdateTrailing(a, first, size, engine);
  }
  return true;
}

// Row block of L^-1: what stands in `rows` [size, columns] becomes -L11^-1 rows, by forward
// substitution over ranges of columns.
void SolveDiagonal(const Matrix& l, int64_t first, const MutableMatrixView& rows,
                   MatrixEngine& engine) {
  engine.ForRanges(rows.columns, [&](int64_t begin, int64_t end) {
    for (int64_t i = 0; i < rows.rows; ++i) {
      float* row = rows.data + i * rows.row_stride;
      for (int64_t k = 0; k < i; ++k) {
        const float factor = l.At(first + i, first + k);
        const float* other = rows.data + k * rows.row_stride;
        for (int64_t j = begin; j < end; ++j)
          row[j] -= factor * other[j];
      }
      const float inverse = 1.0F / l.At(first + i, first + i);
      for (int64_t j = begin; j < end; ++j)
        row[j] *= inverse;
    }
  });
}

// L^-1 for a lower triangular L whose upper triangle is not read.
Matrix InvertLower(const Matrix& l, MatrixEngine& engine) {
  Matrix x(l.rows(), l.rows());
  for (int64_t first = 0; first < l.rows(); first += kBlock) {
    const int64_t size = std::min(kBlock, l.rows() - first);
    for (int64_t i = first; i < first + size; ++i)
      x.At(i, i) = 1.0F;
    if (first > 0) {
      engine.AddProduct(-1.0F, l.view().Block(first, size, 0, first),
                        std::as_const(x).view().Block(0, first, 0, first),
                        x.view().Block(first, size, 0, first));
    }
    SolveDiagonal(l, first, x.view().Block(first, size, 0, first + size), engine);
  }
  return x;
}

// Both orders of the variables reversed.
Matrix Reversed(const Matrix& a) {
  Matrix result(a.rows(), a.columns());
  std::reverse_copy(a.values().begin(), a.values().end(), result.values().begin());
  return result;
}

// The lower triangle of h reversed is the upper one; Cholesky reads the lower.
Matrix ReversedSymmetric(const Matrix& h) {
  const int64_t n = h.rows();
  Matrix result(n, n);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j)
      result.At(n - 1 - j, n - 1 - i) = h.At(i, j);
  }
  return result;
}

float MeanDiagonal(const Matrix& h) {
  double sum = 0.0;
  for (int64_t i = 0; i < h.rows(); ++i)
    sum += h.At(i, i);
  const auto mean = static_cast<float>(sum / static_cast<double>(h.rows()));
  return mean > 0.0F && std::isfinite(mean) ? mean : 1.0F;
}

// Dead columns correlate with nothing.
void ReviveDead(Matrix& h, float diagonal) {
  for (int64_t i = 0; i < h.rows(); ++i) {
    if (h.At(i, i) > 0.0F)
      continue;
    for (int64_t j = 0; j < i; ++j)
      h.At(i, j) = 0.0F;
    for (int64_t j = i + 1; j < h.rows(); ++j)
      h.At(j, i) = 0.0F;
    h.At(i, i) = diagonal;
  }
}

}  // namespace

std::optional<Matrix> InverseFactor(const Matrix& h, MatrixEngine& engine) {
  Matrix l = ReversedSymmetric(h);
  if (!Cholesky(l, engine))
    return std::nullopt;
  return Reversed(InvertLower(l, engine));
}

DampedFactor FactorWithDamping(const Matrix& h, float damping, MatrixEngine& engine) {
  TENON_CHECK(!std::isnan(damping));  // no share would ever be above the last one
  const float mean = MeanDiagonal(h);
  // From 1e4 on the sum is a multiple of the identity in float, which always factorizes.
  for (float share = damping;; share = std::max(share * 10.0F, 1e-6F)) {
    Matrix damped = h;
    ReviveDead(damped, mean);
    for (int64_t i = 0; i < h.rows(); ++i)
      damped.At(i, i) += share * mean;
    if (share > 1e4F) {
      Matrix identity(h.rows(), h.rows());
      for (int64_t i = 0; i < h.rows(); ++i)
        identity.At(i, i) = 1.0F;
      return {std::move(identity), share};
    }
    if (std::optional<Matrix> u = InverseFactor(damped, engine))
      return {*std::move(u), share};
  }
}

}  // namespace tenon
