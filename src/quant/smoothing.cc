#include "quant/smoothing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "quant/activation_round.h"
#include "quant/compensate.h"

namespace tenon {
namespace {

// Importance of a column's weight errors: the mean square of its smoothed input.
std::vector<float> MeanSquares(const Matrix& sample) {
  std::vector<float> squares(static_cast<size_t>(sample.columns()));
  for (int64_t i = 0; i < sample.rows(); ++i) {
    for (int64_t j = 0; j < sample.columns(); ++j)
      squares[static_cast<size_t>(j)] += sample.At(i, j) * sample.At(i, j);
  }
  return squares;
}

// Columns times factors[j], or divided by them.
enum class Scaling : uint8_t { kMultiply, kDivide };
Matrix ScaleColumns(const Matrix& source, std::span<const float> factors, Scaling scaling) {
  Matrix result = source;
  if (factors.empty())
    return result;
  for (int64_t i = 0; i < result.rows(); ++i) {
    float* row = result.Row(i);
    for (int64_t j = 0; j < result.columns(); ++j) {
      const float factor = factors[static_cast<size_t>(j)];
      row[j] = scaling == Scaling::kMultiply ? row[j] * factor : row[j] / factor;
    }
  }
  return result;
}

Matrix Rounded(const Matrix& weights, const GridSpec& grid, std::span<const float> importance,
               MatrixEngine& engine) {
  QuantizedMatrix levels(grid, weights.rows(), weights.columns());
  RoundToNearest(weights, importance, levels, engine);
  Matrix result(weights.rows(), weights.columns());
  for (int64_t i = 0; i < result.rows(); ++i)
    levels.DecodeRow(i, result.Row(i));
  return result;
}

double SumOfSquares(const Matrix& values) {
  double sum = 0.0;
  for (const float value : values.values())
    sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

// The negative of what the exact weights give, for each matrix.
std::vector<Matrix> ExactOutputs(const SmoothingProblem& problem, MatrixEngine& engine) {
  std::vector<Matrix> outputs;
  for (const Matrix* weights : problem.weights) {
    outputs.emplace_back(problem.sample.rows(), weights->rows());
    engine.AddProduct(-1.0F, problem.sample.view(), weights->view().Transposed(),
                      outputs.back().view());
  }
  return outputs;
}

double LossAgainst(const SmoothingProblem& problem, std::span<const float> scales,
                   const std::vector<Matrix>& exact, MatrixEngine& engine) {
  Matrix inputs = ScaleColumns(problem.sample, scales, Scaling::kDivide);
  const std::vector<float> importance = MeanSquares(inputs);
  if (problem.activations == ActivationGrid::kPerTokenInt8) {
    for (int64_t i = 0; i < inputs.rows(); ++i)
      RoundActivationRow({inputs.Row(i), static_cast<size_t>(inputs.columns())});
  }
  double sum = 0.0;
  double count = 0.0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const Matrix scaled = ScaleColumns(*problem.weights[i], scales, Scaling::kMultiply);
    const Matrix rounded = Rounded(scaled, problem.grid, importance, engine);
    Matrix difference = exact[i];
    engine.AddProduct(1.0F, std::as_const(inputs).view(), rounded.view().Transposed(),
                      difference.view());
    sum += SumOfSquares(difference);
    count += static_cast<double>(difference.values().size());
  }
  return count > 0.0 ? sum / count : 0.0;
}

}  // namespace

std::vector<float> SmoothingScales(std::span<const float> magnitudes, float exponent) {
  std::vector<float> scales(magnitudes.size());
  float largest = 0.0F;
  float least = std::numeric_limits<float>::infinity();
  for (size_t j = 0; j < scales.size(); ++j) {
    scales[j] = std::max(std::pow(magnitudes[j], exponent), 1e-4F);
    largest = std::max(largest, scales[j]);
    least = std::min(least, scales[j]);
  }
  const float middle = std::sqrt(largest * least);
  for (float& scale : scales)
    scale /= middle;
  return scales;
}

std::vector<float> ClosedFormScales(std::span<const float> ranges,
                                    std::span<const Matrix* const> weights, float alpha) {
  std::vector<float> weight_ranges(ranges.size());
  for (const Matrix* matrix : weights) {
    for (int64_t i = 0; i < matrix->rows(); ++i) {
      const float* row = matrix->Row(i);
      for (size_t j = 0; j < weight_ranges.size(); ++j)
        weight_ranges[j] = std::max(weight_ranges[j], std::fabs(row[j]));
    }
  }
  std::vector<float> scales(ranges.size());
  for (size_t j = 0; j < scales.size(); ++j) {
    const float scale =
        std::pow(ranges[j], alpha) / std::pow(std::max(weight_ranges[j], 1e-5F), 1.0F - alpha);
    scales[j] = std::max(scale, 1e-5F);
  }
  return scales;
}

double SmoothingLoss(const SmoothingProblem& problem, std::span<const float> scales,
                     MatrixEngine& engine) {
  return LossAgainst(problem, scales, ExactOutputs(problem, engine), engine);
}

SmoothingChoice SearchSmoothing(const SmoothingProblem& problem,
                                std::span<const std::vector<float>> magnitudes,
                                MatrixEngine& engine) {
  const std::vector<Matrix> exact = ExactOutputs(problem, engine);
  SmoothingChoice best;
  best.loss = best.unsmoothed_loss = LossAgainst(problem, {}, exact, engine);
  best.scales.assign(static_cast<size_t>(problem.sample.columns()), 1.0F);
  for (const std::vector<float>& magnitude : magnitudes) {
    for (int i = 1; i < kSmoothingSteps; ++i) {
      const float exponent = static_cast<float>(i) / static_cast<float>(kSmoothingSteps - 1);
      std::vector<float> scales = SmoothingScales(magnitude, exponent);
      const double loss = LossAgainst(problem, scales, exact, engine);
      if (!(loss < best.loss))
        continue;
      best.scales = std::move(scales);
      best.exponent = exponent;
      best.loss = loss;
    }
  }
  return best;
}

}  // namespace tenon
