// rms_norm: groups of a row divided by their root mean square (arXiv 1910.07467), times a weight.
#include <cmath>

#include "graph/ops/registry.h"
#include "graph/ops/shape_rules.h"

namespace tenon {
namespace {

// Square and sum, then multiply by 1/rms and by the weight.
constexpr double kFlopsPerValue = 4;
constexpr size_t kResidualInput = 2;

Result<std::vector<ValueType>> Shape(const Graph& graph, const Op& op) {
  const auto& attrs = std::get<RmsNormAttrs>(op.attrs);
  const ShapeRules rules(graph, op);
  const size_t arity = attrs.add_residual ? 3 : 2;
  TENON_RETURN_IF_ERROR(rules.Arity(arity, arity));
  TENON_RETURN_IF_ERROR(rules.Activation(0));
  if (attrs.group <= 0 || rules.columns(0) % attrs.group != 0)
    return rules.AttrError("group", attrs.group,
                           fmt::format("a divisor of the {} columns", rules.columns(0)));
  if (!std::isfinite(attrs.eps) || attrs.eps < 0.0F)
    return rules.AttrError("eps", attrs.eps, "a number of at least 0");
  TENON_RETURN_IF_ERROR(rules.ExactType(1, {DType::kF32, {Dim{Symbol::kNone, attrs.group}}}));
  const ValueType type{DType::kF32, rules.input(0).shape};
  if (attrs.add_residual)
    TENON_RETURN_IF_ERROR(rules.ExactType(kResidualInput, type));
  return std::vector<ValueType>{type};
}

Cost OpCostOf(const Graph& graph, const Op& op, const CostPoint& point) {
  const bool adds = std::get<RmsNormAttrs>(op.attrs).add_residual;
  return PerValueCost(graph, op, point, adds ? kFlopsPerValue + 1 : kFlopsPerValue);
}

std::vector<AttrField> Fields(OpAttrs& any) {
  auto& attrs = std::get<RmsNormAttrs>(any);
  return {{"eps", &attrs.eps},
          {"group", &attrs.group},
          {"add_residual", &attrs.add_residual, FieldShown::kWhenChanged}};
}

// A result that is also the residual stream stays F32: its other readers add to it.
bool MayQuantizeOutput(const Op& op) {
  return !std::get<RmsNormAttrs>(op.attrs).add_residual;
}

std::vector<size_t> InPlace(const Op& op) {
  return {std::get<RmsNormAttrs>(op.attrs).add_residual ? kResidualInput : 0};
}

}  // namespace

constinit const OpSchema kRmsNormSchema = {
    .name = "rms_norm",
    .make = [] { return OpAttrs(RmsNormAttrs{}); },
    .fields = Fields,
    .shape = Shape,
    .cost = OpCostOf,
    .may_quantize_output = MayQuantizeOutput,
    .in_place = InPlace,
};

}  // namespace tenon
