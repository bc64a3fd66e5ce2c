#include "quant/compensate.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// One block of columns of all rows, and what is needed beside the weights.
struct Block {
  int64_t first = 0;
  int64_t end = 0;
  const Matrix& u;
  std::span<const float> importance;
};

// Quantizes a row's columns of the block in place and leaves their errors; returns the loss.
double QuantizeRowBlock(Matrix& weights, int64_t row, const Block& block, QuantizedMatrix& out,
                        float* errors) {
  float* w = weights.Row(row);
  double loss = 0.0;
  for (int64_t i = block.first; i < block.end; ++i) {
    if (i % out.group() == 0)
      out.BeginGroup(row, i, std::as_const(weights).RowSpan(row), block.importance);
    const float* u = block.u.Row(i);
    const float rounded = out.Round(row, i, w[i]);
    const float error = (w[i] - rounded) / u[i];
    for (int64_t j = i + 1; j < block.end; ++j)
      w[j] -= error * u[j];
    w[i] = rounded;
    errors[i - block.first] = error;
    loss += 0.5 * static_cast<double>(error) * static_cast<double>(error);
  }
  return loss;
}

// How much an error of each column costs when later columns make up for it: 1 / U[i, i]^2.
std::vector<float> ImportanceOf(const Matrix& u) {
  std::vector<float> importance(static_cast<size_t>(u.rows()));
  for (int64_t i = 0; i < u.rows(); ++i)
    importance[static_cast<size_t>(i)] = 1.0F / (u.At(i, i) * u.At(i, i));
  return importance;
}

// Blocks end where super blocks do, so that the factors see weights that are up to date.
int64_t BlockSize(const QuantizedMatrix& out) {
  return std::max(kCompensationBlock, out.grid().super_block);
}

}  // namespace

void RoundToNearest(const Matrix& weights, std::span<const float> importance, QuantizedMatrix& out,
                    MatrixEngine& engine) {
  engine.ForRanges(weights.rows(), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const std::span<const float> values = weights.RowSpan(row);
      for (int64_t column = 0; column < weights.columns(); column += out.group()) {
        out.BeginGroup(row, column, values, importance);
        out.RoundGroup(row, column, values.data() + column);
      }
    }
  });
}

double QuantizeCompensated(Matrix& weights, const Matrix& u, QuantizedMatrix& out,
                           MatrixEngine& engine) {
  const std::vector<float> importance = ImportanceOf(u);
  const int64_t columns = weights.columns();
  const int64_t size = BlockSize(out);
  std::vector<double> losses(static_cast<size_t>(weights.rows()));
  Matrix errors(weights.rows(), size);
  for (int64_t first = 0; first < columns; first += size) {
    const Block block{first, std::min(columns, first + size), u, importance};
    const int64_t count = block.end - first;
    engine.ForRanges(weights.rows(), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        losses[static_cast<size_t>(row)] +=
            QuantizeRowBlock(weights, row, block, out, errors.Row(row));
      }
    });
    const int64_t rest = columns - block.end;
    if (rest > 0) {
      engine.AddProduct(-1.0F, std::as_const(errors).view().Block(0, weights.rows(), 0, count),
                        u.view().Block(first, count, block.end, rest),
                        weights.view().Block(0, weights.rows(), block.end, rest));
    }
  }
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

}  // namespace tenon
