#include "frontend/quantize/segment_quantizer.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/check.h"

namespace tenon {

SegmentQuantizer::SegmentQuantizer(const Environment& environment, const GraphRange& range)
    : environment_(environment) {
  for (InputGroup& plan : PlanFolds(environment.graph, range)) {
    Group group;
    group.plan = std::move(plan);
    groups_.push_back(std::move(group));
  }
}

Status SegmentQuantizer::Prepare(int64_t expected_rows) {
  for (Group& group : groups_) {
    for (const std::string& name : group.plan.weights) {
      TENON_ASSIGN_OR_RETURN(Matrix matrix, LoadMatrix(environment_.weights, name));
      matrices_.insert_or_assign(name, std::move(matrix));
    }
    if (group.plan.experts) {
      group.experts = std::make_unique<ExpertsQuantizer>(
          ExpertsQuantizer::Environment{environment_.source, environment_.weights,
                                        environment_.types, Context()},
          *group.plan.experts);
    }
    if (expected_rows > 0) {
      group.statistics = std::make_unique<InputStatistics>(
          MakeStatistics(group.plan.columns, expected_rows, environment_.options));
    }
  }
  return {};
}

void SegmentQuantizer::Observe(ValueId value, const MatrixView& rows) {
  for (Group& group : groups_) {
    if (group.plan.input == value) {
      if (group.statistics)
        group.statistics->Add(rows, environment_.engine);
      if (group.experts)
        group.experts->AddInputs(rows);
    }
    if (group.experts && group.plan.experts->route == value)
      group.experts->AddRoutes(rows);
  }
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

// On some rows of all matrices that are quantized at all; a closed form looks at every row.
Status SegmentQuantizer::ChooseGroupFactors(Group& group) const {
  const bool closed = environment_.options.method == QuantizeMethod::kSmoothQuant;
  const auto count = static_cast<int64_t>(group.plan.weights.size());
  std::vector<Matrix> weights;
  std::optional<GridSpec> grid;  // of the first one
  for (const std::string& name : group.plan.weights) {
    const auto own = environment_.types.GridOf(*environment_.source.Find(name));
    if (!own)
      continue;
    grid = grid ? grid : own;
    const Matrix& matrix = matrices_.at(name);
    weights.push_back(SampleRows(matrix, closed ? matrix.rows() : kSearchRows / count));
  }
  if (group.experts) {
    TENON_ASSIGN_OR_RETURN(std::vector<Matrix> rows, group.experts->SmoothingWeights());
    if (!grid && !rows.empty())
      grid = environment_.types.GridOf(*environment_.source.Find(group.plan.experts->gate));
    std::move(rows.begin(), rows.end(), std::back_inserter(weights));
  }
  if (!grid)
    return {};
  SmoothingScope scope{*group.statistics, {}, *grid, &*group.plan.fold};
  for (const Matrix& matrix : weights)
    scope.weights.push_back(&matrix);
  group.factors = ChooseFactors(scope, Context());
  return {};
}

Result<Matrix> SegmentQuantizer::LoadVector(const std::string& name) {
  const auto found = vectors_.find(name);
  if (found != vectors_.end())
    return found->second;
  return LoadMatrix(environment_.weights, name);
}

// The experts' columns are scaled when each of them is quantized.
Status SegmentQuantizer::Smooth(Group& group) {
  if (!MaySmooth(group))
    return {};
  TENON_RETURN_IF_ERROR(ChooseGroupFactors(group));
  const std::vector<float>& scales = group.factors.scales;
  if (scales.empty())
    return {};
  const FoldTarget& fold = *group.plan.fold;
  for (const std::string& name : fold.vectors) {
    TENON_ASSIGN_OR_RETURN(Matrix vector, LoadVector(name));
    DivideVector(fold, scales, vector);
    vectors_.insert_or_assign(name, std::move(vector));
  }
  if (!fold.matrix.empty())
    DivideRows(fold, scales, matrices_.at(fold.matrix));
  for (const std::string& name : group.plan.weights)
    MultiplyColumns(matrices_.at(name), scales);
  return {};
}

void SegmentQuantizer::QuantizeMatrix(const std::string& name, const InputModel& input,
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
    return;
  }
  QuantizedLinear linear = QuantizeLinear(weights, *grid, input, Context());
  linear.report.name = name;
  result.reports.push_back(std::move(linear.report));
  result.tensors.push_back(
      {name, grid->container, tensor->shape, EncodeRows(linear.levels, environment_.engine)});
  environment_.weights.Replace(name, std::move(linear.values));
}

Status SegmentQuantizer::QuantizeGroup(Group& group, SegmentResult& result) {
  if (!group.plan.weights.empty()) {
    InputModel input = group.statistics
                           ? ModelInput(*group.statistics, group.factors.scales, Context())
                           : UnknownInput(group.plan.columns);
    input.exponent = static_cast<double>(group.factors.exponent);
    for (const std::string& name : group.plan.weights)
      QuantizeMatrix(name, input, result);
  }
  if (group.experts) {
    TENON_ASSIGN_OR_RETURN(ExpertsQuantizer::Output output,
                           group.experts->Quantize(group.statistics.get(), group.factors));
    std::move(output.tensors.begin(), output.tensors.end(), std::back_inserter(result.tensors));
    std::move(output.reports.begin(), output.reports.end(), std::back_inserter(result.reports));
  }
  group.statistics.reset();
  group.experts.reset();
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

}  // namespace tenon
