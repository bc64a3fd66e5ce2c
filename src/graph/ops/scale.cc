// scale: x * factor.
#include <cmath>

#include "graph/ops/registry.h"
#include "graph/ops/shape_rules.h"

namespace tenon {
namespace {

constexpr double kFlopsPerValue = 1;  // one multiplication

Result<std::vector<ValueType>> Shape(const Graph& graph, const Op& op) {
  const float factor = std::get<ScaleAttrs>(op.attrs).factor;
  if (!std::isfinite(factor))
    return ShapeRules(graph, op).AttrError("factor", factor, "a finite number");
  return ElementwiseShape(graph, op, 1);
}

Cost OpCostOf(const Graph& graph, const Op& op, const CostPoint& point) {
  return PerValueCost(graph, op, point, kFlopsPerValue);
}

}  // namespace

constinit const OpSchema kScaleSchema = {
    .name = "scale",
    .make = [] { return OpAttrs(ScaleAttrs{}); },
    .fields =
        [](OpAttrs& attrs) {
          return std::vector<AttrField>{{"factor", &std::get<ScaleAttrs>(attrs).factor}};
        },
    .shape = Shape,
    .cost = OpCostOf,
    .in_place = [](const Op&) { return std::vector<size_t>{0}; },
};

}  // namespace tenon
