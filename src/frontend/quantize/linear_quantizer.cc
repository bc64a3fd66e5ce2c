#include "frontend/quantize/linear_quantizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "quant/compensate.h"
#include "quant/refine.h"
#include "quant/smoothing.h"

namespace tenon {
namespace {

// Rows of an input that exponents are searched on and errors measured on: with kSearchRows enough
// for a mean over 100,000 outputs, whatever the model's size.
constexpr int64_t kSampleRows = 384;

Matrix ValuesOf(const QuantizedMatrix& levels, MatrixEngine& engine) {
  Matrix values(levels.rows(), levels.columns());
  engine.ForRanges(values.rows(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      levels.DecodeRow(i, values.Row(i));
  });
  return values;
}

double NormOfProduct(const Matrix& inputs, const Matrix& weights, MatrixEngine& engine) {
  Matrix outputs(inputs.rows(), weights.rows());
  engine.AddProduct(1.0F, inputs.view(), weights.view().Transposed(), outputs.view());
  double sum = 0.0;
  for (const float value : std::as_const(outputs).values())
    sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

// Of outputs, for inputs [rows, columns].
double RelativeError(const Matrix& inputs, const Matrix& exact, const Matrix& rounded,
                     MatrixEngine& engine) {
  if (inputs.rows() == 0)
    return 0.0;
  Matrix difference = rounded;
  for (size_t i = 0; i < difference.values().size(); ++i)
    difference.values()[i] -= exact.values()[i];
  const double size = NormOfProduct(inputs, exact, engine);
  return size > 0.0 ? NormOfProduct(inputs, difference, engine) / size : 0.0;
}

}  // namespace

InputStatistics MakeStatistics(int64_t columns, int64_t rows, const QuantizeOptions& options) {
  InputStatistics::Options wanted;
  wanted.columns = columns;
  wanted.products = Compensates(options.method) ? ColumnProducts::kAll : ColumnProducts::kNone;
  wanted.sample_rows = kSampleRows;
  wanted.expected_rows = rows;
  return InputStatistics(wanted);
}

InputModel UnknownInput(int64_t columns) {
  InputModel input;
  input.importance.assign(static_cast<size_t>(columns), 1.0F);
  return input;
}

InputModel ModelInput(const InputStatistics& statistics, std::span<const float> scales,
                      const LinearContext& context) {
  InputModel input;
  input.sample = statistics.Sample();
  input.importance = statistics.MeanSquares();
  for (size_t j = 0; j < scales.size(); ++j) {
    input.importance[j] /= scales[j] * scales[j];
    for (int64_t i = 0; i < input.sample.rows(); ++i)
      input.sample.At(i, static_cast<int64_t>(j)) /= scales[j];
  }
  if (!Compensates(context.options.method))
    return input;
  Matrix hessian = statistics.Hessian(scales);
  input.factor = FactorWithDamping(hessian, context.options.damping, context.engine);
  if (context.options.refine_steps > 0)
    input.hessian = std::move(hessian);
  return input;
}

QuantizedLinear QuantizeLinear(const Matrix& weights, const GridSpec& grid, const InputModel& input,
                               const LinearContext& context) {
  const QuantizeOptions& options = context.options;
  QuantizedMatrix levels(grid, weights.rows(), weights.columns());
  LinearReport report;
  report.type = std::string(DTypeName(grid.container));
  report.rows = weights.rows();
  report.columns = weights.columns();
  report.exponent = input.exponent;
  if (input.factor) {
    Matrix work = weights;
    QuantizeCompensated(work, input.factor->u, levels, context.engine);
    report.damping = static_cast<double>(input.factor->damping);
    const RefineOptions refine{options.refine_steps, options.refine_from, options.refine_to};
    if (options.refine_steps > 0)
      RefineScales(weights, input.hessian, refine, levels, context.engine);
  } else {
    RoundToNearest(weights, input.importance, levels, context.engine);
  }
  Matrix values = ValuesOf(levels, context.engine);
  report.relative_error = RelativeError(input.sample, weights, values, context.engine);
  return {std::move(levels), std::move(values), std::move(report)};
}

SmoothingFactors ChooseFactors(const SmoothingScope& scope, const LinearContext& context) {
  const QuantizeOptions& options = context.options;
  const std::span<const float> largest = scope.statistics.largest();
  if (options.method == QuantizeMethod::kSmoothQuant)
    return {ClosedFormScales(largest, scope.weights, options.alpha), options.alpha};
  const bool is_haq = options.method == QuantizeMethod::kHaq;
  std::vector<std::vector<float>> magnitudes = {scope.statistics.MeanMagnitudes()};
  if (is_haq)
    magnitudes.emplace_back(largest.begin(), largest.end());
  for (std::vector<float>& magnitude : magnitudes) {
    if (scope.fold != nullptr)
      TieMagnitudes(*scope.fold, magnitude);
  }
  const Matrix inputs = scope.statistics.Sample();
  GridSpec grid = scope.grid;
  // Searched scales would cost forty times as much in each of the trials, and they move all of
  // these alike.
  grid.rule = ScaleRule::kRange;
  const SmoothingProblem problem{inputs, scope.weights, grid,
                                 is_haq ? ActivationGridOf(options) : ActivationGrid::kFloat};
  SmoothingChoice choice = SearchSmoothing(problem, magnitudes, context.engine);
  if (choice.exponent == 0.0F)
    return {};
  return {std::move(choice.scales), choice.exponent};
}

Matrix SampleRows(const Matrix& matrix, int64_t count) {
  const int64_t kept = std::min(count, matrix.rows());
  Matrix sample(kept, matrix.columns());
  for (int64_t i = 0; i < kept; ++i)
    std::copy_n(matrix.Row(i * matrix.rows() / kept), matrix.columns(), sample.Row(i));
  return sample;
}

void MultiplyColumns(Matrix& matrix, std::span<const float> factors) {
  for (int64_t i = 0; i < matrix.rows(); ++i) {
    float* row = matrix.Row(i);
    for (size_t j = 0; j < factors.size(); ++j)
      row[j] *= factors[j];
  }
}

std::vector<std::byte> EncodeRows(const QuantizedMatrix& levels, MatrixEngine& engine) {
  const int64_t row_bytes = DTypeRowBytes(levels.grid().container, levels.columns());
  std::vector<std::byte> bytes(static_cast<size_t>(row_bytes * levels.rows()));
  engine.ForRanges(levels.rows(), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      levels.EncodeRow(row, std::span(bytes).subspan(static_cast<size_t>(row * row_bytes),
                                                     static_cast<size_t>(row_bytes)));
    }
  });
  return bytes;
}

EncodedTensor EncodeMatrix(const TensorInfo& tensor, const Matrix& weights, const GridSpec& grid,
                           MatrixEngine& engine) {
  QuantizedMatrix levels(grid, weights.rows(), weights.columns());
  const std::vector<float> importance(static_cast<size_t>(weights.columns()), 1.0F);
  RoundToNearest(weights, importance, levels, engine);
  return {tensor.name, grid.container, tensor.shape, EncodeRows(levels, engine)};
}

}  // namespace tenon
