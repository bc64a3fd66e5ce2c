// layer_norm: a row less its mean, divided by its standard deviation (arXiv 1607.06450), times a
// weight, plus a bias.
#include <cmath>

#include "graph/ops/registry.h"
#include "graph/ops/shape_rules.h"

namespace tenon {
namespace {

// Sum, difference, square and sum, then multiply by 1/deviation and weight, add the bias.
constexpr double kFlopsPerValue = 7;

Result<std::vector<ValueType>> Shape(const Graph& graph, const Op& op) {
  const auto& attrs = std::get<LayerNormAttrs>(op.attrs);
  const ShapeRules rules(graph, op);
  TENON_RETURN_IF_ERROR(rules.Arity(3, 3));
  TENON_RETURN_IF_ERROR(rules.Activation(0));
  if (!std::isfinite(attrs.eps) || attrs.eps < 0.0F)
    return rules.AttrError("eps", attrs.eps, "a number of at least 0");
  const ValueType vector{DType::kF32, {Dim{Symbol::kNone, rules.columns(0)}}};
  TENON_RETURN_IF_ERROR(rules.ExactType(1, vector));
  TENON_RETURN_IF_ERROR(rules.ExactType(2, vector));
  return std::vector<ValueType>{{DType::kF32, rules.input(0).shape}};
}

Cost OpCostOf(const Graph& graph, const Op& op, const CostPoint& point) {
  return PerValueCost(graph, op, point, kFlopsPerValue);
}

}  // namespace

constinit const OpSchema kLayerNormSchema = {
    .name = "layer_norm",
    .make = [] { return OpAttrs(LayerNormAttrs{}); },
    .fields =
        [](OpAttrs& attrs) {
          return std::vector<AttrField>{{"eps", &std::get<LayerNormAttrs>(attrs).eps}};
        },
    .shape = Shape,
    .cost = OpCostOf,
    .may_quantize_output = [](const Op&) { return true; },
    .in_place = [](const Op&) { return std::vector<size_t>{0}; },
};

}  // namespace tenon
