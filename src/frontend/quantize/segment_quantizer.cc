#include "frontend/quantize/segment_quantizer.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/check.h"
#include "quant/compensate.h"
#include "quant/factorize.h"
#include "quant/refine.h"
#include "quant/smoothing.h"

namespace tenon {
namespace {

// Rows of the inputs that exponents are searched on and errors measured on, and rows of the stacked
// weights: enough for a mean over 100,000 outputs, whatever the model's size.
constexpr int64_t kSampleRows = 384;
constexpr int64_t kSearchRows = 256;

// At most `count` rows, evenly spread.
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

Matrix ValuesOf(const QuantizedMatrix& levels) {
  Matrix values(levels.rows(), levels.columns());
  for (int64_t i = 0; i < values.rows(); ++i) {
    for (int64_t j = 0; j < values.columns(); ++j)
      values.At(i, j) = levels.ValueAt(i, j);
  }
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

// Input rows, importance of columns, Hessian and its factor, all of the smoothed input.
struct SegmentQuantizer::Prepared {
  Matrix sample;
  std::vector<float> importance;
  Matrix hessian;                      // only where scales are refined
  std::optional<DampedFactor> factor;  // with compensation
  double exponent = 0.0;
};

SegmentQuantizer::SegmentQuantizer(const Environment& environment, const GraphRange& range)
    : environment_(environment) {
  for (InputGroup& plan : PlanFolds(environment.graph, range)) {
    Group group;
    group.plan = std::move(plan);
    groups_.push_back(std::move(group));
  }
}

Status SegmentQuantizer::Prepare(int64_t expected_rows) {
  const bool compensates = Compensates(environment_.options.method);
  for (Group& group : groups_) {
    for (const std::string& name : group.plan.weights) {
      TENON_ASSIGN_OR_RETURN(Matrix matrix, LoadMatrix(environment_.weights, name));
      matrices_.insert_or_assign(name, std::move(matrix));
    }
    if (expected_rows == 0)
      continue;
    InputStatistics::Options statistics;
    statistics.columns = group.plan.columns;
    statistics.products = compensates ? ColumnProducts::kAll : ColumnProducts::kNone;
    statistics.sample_rows = kSampleRows;
    statistics.expected_rows = expected_rows;
    group.statistics = std::make_unique<InputStatistics>(statistics);
  }
  return {};
}

void SegmentQuantizer::Observe(size_t index, const MatrixView& rows) {
  TENON_CHECK(index < groups_.size());
  if (groups_[index].statistics)
    groups_[index].statistics->Add(rows, environment_.engine);
}

bool SegmentQuantizer::MaySmooth(const Group& group) const {
  if (!group.plan.fold || !group.statistics)
    return false;
  switch (environment_.options.method) {
    case QuantizeMethod::kSmoothQuant:
      return group.plan.fold->kind == FoldKind::kNorm;
    case QuantizeMethod::kAwq:
    case QuantizeMethod::kHaq:
      return true;
    default:
      return false;
  }
}

std::vector<float> SegmentQuantizer::ChooseScales(Group& group) const {
  const QuantizeOptions& options = environment_.options;
  std::vector<const Matrix*> weights;
  for (const std::string& name : group.plan.weights)
    weights.push_back(&matrices_.at(name));
  if (options.method == QuantizeMethod::kSmoothQuant) {
    group.exponent = options.alpha;
    return ClosedFormScales(group.statistics->largest(), weights, options.alpha);
  }
  std::vector<std::vector<float>> magnitudes = {group.statistics->MeanMagnitudes()};
  const bool is_haq = options.method == QuantizeMethod::kHaq;
  if (is_haq) {
    const std::span<const float> largest = group.statistics->largest();
    magnitudes.emplace_back(largest.begin(), largest.end());
  }
  for (std::vector<float>& magnitude : magnitudes)
    TieMagnitudes(*group.plan.fold, magnitude);
  std::vector<Matrix> sampled;
  for (const Matrix* matrix : weights)
    sampled.push_back(SampleRows(*matrix, kSearchRows / static_cast<int64_t>(weights.size())));
  const Matrix inputs = group.statistics->Sample();
  std::optional<GridSpec> grid;  // of the first matrix that is quantized at all
  for (size_t i = 0; i < group.plan.weights.size() && !grid; ++i)
    grid = environment_.types.GridOf(*environment_.source.Find(group.plan.weights[i]));
  if (!grid)
    return {};
  // Searched scales would cost forty times as much in each of the trials, and they move all of
  // these alike.
  grid->rule = ScaleRule::kRange;
  SmoothingProblem problem{inputs, {}, *grid, ActivationGrid::kFloat};
  problem.activations = is_haq ? ActivationGridOf(options) : ActivationGrid::kFloat;
  for (const Matrix& matrix : sampled)
    problem.weights.push_back(&matrix);
  const SmoothingChoice choice = SearchSmoothing(problem, magnitudes, environment_.engine);
  group.exponent = choice.exponent;
  return choice.exponent == 0.0F ? std::vector<float>() : choice.scales;
}

Result<Matrix> SegmentQuantizer::LoadVector(const std::string& name) {
  const auto found = vectors_.find(name);
  if (found != vectors_.end())
    return found->second;
  return LoadMatrix(environment_.weights, name);
}

Status SegmentQuantizer::Smooth(Group& group) {
  if (!MaySmooth(group))
    return {};
  group.scales = ChooseScales(group);
  if (group.scales.empty())
    return {};
  const FoldTarget& fold = *group.plan.fold;
  for (const std::string& name : fold.vectors) {
    TENON_ASSIGN_OR_RETURN(Matrix vector, LoadVector(name));
    DivideVector(fold, group.scales, vector);
    vectors_.insert_or_assign(name, std::move(vector));
  }
  if (!fold.matrix.empty())
    DivideRows(fold, group.scales, matrices_.at(fold.matrix));
  for (const std::string& name : group.plan.weights)
    MultiplyColumns(matrices_.at(name), group.scales);
  return {};
}

SegmentQuantizer::Prepared SegmentQuantizer::PrepareGroup(const Group& group) const {
  Prepared shared;
  shared.importance.assign(static_cast<size_t>(group.plan.columns), 1.0F);
  shared.exponent = static_cast<double>(group.exponent);
  if (!group.statistics)
    return shared;
  shared.sample = group.statistics->Sample();
  shared.importance = group.statistics->MeanSquares();
  for (size_t j = 0; j < group.scales.size(); ++j) {
    shared.importance[j] /= group.scales[j] * group.scales[j];
    for (int64_t i = 0; i < shared.sample.rows(); ++i)
      shared.sample.At(i, static_cast<int64_t>(j)) /= group.scales[j];
  }
  if (!Compensates(environment_.options.method))
    return shared;
  Matrix hessian = group.statistics->Hessian(group.scales);
  shared.factor = FactorWithDamping(hessian, environment_.options.damping, environment_.engine);
  if (environment_.options.refine_steps > 0)
    shared.hessian = std::move(hessian);
  return shared;
}

Status SegmentQuantizer::QuantizeMatrix(const std::string& name, const Prepared& shared,
                                        SegmentResult& result) {
  const TensorInfo* tensor = environment_.source.Find(name);
  TENON_CHECK(tensor != nullptr);
  const std::optional<GridSpec> grid = environment_.types.GridOf(*tensor);
  Matrix& weights = matrices_.at(name);
  if (!grid) {  // smoothing may have changed it all the same
    result.tensors.push_back({name, DType::kF32, tensor->shape, {}});
    const auto bytes = std::as_bytes(std::as_const(weights).values());
    result.tensors.back().bytes.assign(bytes.begin(), bytes.end());
    environment_.weights.Replace(name, std::move(weights));
    return {};
  }
  QuantizedMatrix levels(*grid, weights.rows(), weights.columns());
  LinearReport report{name, std::string(DTypeName(grid->container)), weights.rows(),
                      weights.columns()};
  if (shared.factor) {
    Matrix work = weights;
    QuantizeCompensated(work, shared.factor->u, levels, environment_.engine);
    report.damping = static_cast<double>(shared.factor->damping);
    if (environment_.options.refine_steps > 0) {
      const RefineOptions refine{environment_.options.refine_steps,
                                 environment_.options.refine_from, environment_.options.refine_to};
      RefineScales(weights, shared.hessian, refine, levels, environment_.engine);
    }
  } else {
    RoundToNearest(weights, shared.importance, levels, environment_.engine);
  }
  Matrix values = ValuesOf(levels);
  report.exponent = shared.exponent;
  report.relative_error = RelativeError(shared.sample, weights, values, environment_.engine);
  result.reports.push_back(std::move(report));
  result.tensors.push_back(
      {name, grid->container, tensor->shape, EncodeRows(levels, environment_.engine)});
  environment_.weights.Replace(name, std::move(values));
  return {};
}

Status SegmentQuantizer::QuantizeGroup(Group& group, SegmentResult& result) {
  const Prepared shared = PrepareGroup(group);
  group.statistics.reset();
  for (const std::string& name : group.plan.weights)
    TENON_RETURN_IF_ERROR(QuantizeMatrix(name, shared, result));
  return {};
}

// Factors that go into rows of another matrix of the piece come before those that go into norms:
// they change what the norm's linears look like.
Result<SegmentResult> SegmentQuantizer::Quantize() {
  for (const bool norms : {false, true}) {
    for (Group& group : groups_) {
      const bool is_norm = group.plan.fold && group.plan.fold->kind == FoldKind::kNorm;
      if (is_norm == norms)
        TENON_RETURN_IF_ERROR(Smooth(group));
    }
  }
  SegmentResult result;
  for (Group& group : groups_)
    TENON_RETURN_IF_ERROR(QuantizeGroup(group, result));
  for (auto& [name, vector] : vectors_) {
    const auto bytes = std::as_bytes(std::as_const(vector).values());
    result.tensors.push_back({name, DType::kF32, environment_.source.Find(name)->shape, {}});
    result.tensors.back().bytes.assign(bytes.begin(), bytes.end());
    environment_.weights.Replace(name, std::move(vector));
  }
  return result;
}

EncodedTensor EncodeMatrix(const TensorInfo& tensor, const Matrix& weights, const GridSpec& grid,
                           MatrixEngine& engine) {
  QuantizedMatrix levels(grid, weights.rows(), weights.columns());
  const std::vector<float> importance(static_cast<size_t>(weights.columns()), 1.0F);
  RoundToNearest(weights, importance, levels, engine);
  return {tensor.name, grid.container, tensor.shape, EncodeRows(levels, engine)};
}

}  // namespace tenon
