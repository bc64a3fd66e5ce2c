// experts: a mixture of gated feed-forward networks, each token through those that it is sent to
// (arXiv 2401.04088).
#include <algorithm>
#include <limits>

#include "graph/ops/registry.h"
#include "graph/ops/shape_rules.h"

namespace tenon {
namespace {

constexpr size_t kRouteInput = 1;
constexpr size_t kGateInput = 2;
constexpr size_t kUpInput = 3;
constexpr size_t kDownInput = 4;
// Of silu(a) * b and gelu(a) * b, as in linear.cc.
constexpr double kSiluMulFlops = 5;
constexpr double kGeluMulFlops = 10;

Status CheckAttrs(const ShapeRules& rules, const ExpertsAttrs& attrs) {
  // Above this, products with sizes could overflow; no model comes near.
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (attrs.experts < 1 || attrs.experts > kMost)
    return rules.AttrError("experts", attrs.experts, fmt::format("1 to {}", kMost));
  if (attrs.used < 1 || attrs.used > attrs.experts)
    return rules.AttrError("used", attrs.used, fmt::format("1 to the {} experts", attrs.experts));
  if (attrs.activation != Epilogue::kSiluMul && attrs.activation != Epilogue::kGeluMul)
    return rules.AttrError("activation", static_cast<int>(attrs.activation),
                           "silu_mul or gelu_mul");
  return {};
}

Status CheckX(const ShapeRules& rules) {
  TENON_RETURN_IF_ERROR(rules.LinearInput(0));
  TENON_RETURN_IF_ERROR(rules.TakesInput(kGateInput));
  return rules.TakesInput(kUpInput);
}

Status CheckMatrix(const ShapeRules& rules, size_t i, int64_t rows, int64_t columns) {
  TENON_RETURN_IF_ERROR(rules.WeightMatrix(i));
  if (rules.rows(i).extent == rows && rules.columns(i) == columns)
    return {};
  return rules.InputError(i, fmt::format("[{},{}]", rows, columns));
}

Result<std::vector<ValueType>> Shape(const Graph& graph, const Op& op) {
  const auto& attrs = std::get<ExpertsAttrs>(op.attrs);
  const ShapeRules rules(graph, op);
  TENON_RETURN_IF_ERROR(rules.Arity(5, 5));
  TENON_RETURN_IF_ERROR(CheckAttrs(rules, attrs));
  TENON_RETURN_IF_ERROR(CheckX(rules));
  const Dim tokens = rules.rows(0);
  const int64_t width = rules.columns(0);
  TENON_RETURN_IF_ERROR(
      rules.ExactType(kRouteInput, {DType::kF32, {tokens, Dim{Symbol::kNone, attrs.experts}}}));
  TENON_RETURN_IF_ERROR(rules.WeightMatrix(kGateInput));
  const int64_t rows = rules.rows(kGateInput).extent;
  if (rows % attrs.experts != 0)
    return rules.InputError(kGateInput,
                            fmt::format("equal rows for each of {} experts", attrs.experts));
  TENON_RETURN_IF_ERROR(CheckMatrix(rules, kGateInput, rows, width));
  TENON_RETURN_IF_ERROR(CheckMatrix(rules, kUpInput, rows, width));
  if (ActivationTypeFor(rules.input(kGateInput).dtype, width) !=
      ActivationTypeFor(rules.input(kUpInput).dtype, width))
    return rules.InputError(kUpInput, "of the same class (quantized, 16 bits, F32) as input 2");
  if (width > std::numeric_limits<int64_t>::max() / attrs.experts)
    return rules.InputError(0, "fewer columns");
  TENON_RETURN_IF_ERROR(
      CheckMatrix(rules, kDownInput, attrs.experts * width, rows / attrs.experts));
  return std::vector<ValueType>{{DType::kF32, {tokens, rules.input(0).shape[1]}}};
}

// A step reads the experts that its tokens are sent to: all of them from experts / used tokens on,
// if they were sent evenly.
Cost OpCostOf(const Graph& graph, const Op& op, const CostPoint& point) {
  const auto& attrs = std::get<ExpertsAttrs>(op.attrs);
  const Value& x = graph.value(op.inputs[0]);
  const double experts = static_cast<double>(attrs.experts);
  const double sent = DimSize(x.shape[0], point) * static_cast<double>(attrs.used);
  const double width = DimSize(x.shape[1], point);
  const double middle = DimSize(graph.value(op.inputs[kGateInput]).shape[0], point) / experts;
  Cost cost = MovedBytes(graph, op, point);
  cost.weight_bytes *= std::min(sent, experts) / experts;
  const double act = attrs.activation == Epilogue::kGeluMul ? kGeluMulFlops : kSiluMulFlops;
  cost.flops = sent * (6 * width * middle + act * middle + 2 * width);
  return cost;
}

std::vector<AttrField> Fields(OpAttrs& any) {
  auto& attrs = std::get<ExpertsAttrs>(any);
  return {{"experts", &attrs.experts}, {"used", &attrs.used}, {"activation", &attrs.activation}};
}

}  // namespace

constinit const OpSchema kExpertsSchema = {
    .name = "experts",
    .make = [] { return OpAttrs(ExpertsAttrs{}); },
    .fields = Fields,
    .shape = Shape,
    .cost = OpCostOf,
};

}  // namespace tenon
