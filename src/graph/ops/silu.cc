// silu: x / (1 + exp(-x)).
#include "graph/ops/registry.h"
#include "graph/ops/shape_rules.h"

namespace tenon {
namespace {

constexpr double kFlopsPerValue = 4;  // negation, exp, addition, division

Result<std::vector<ValueType>> Shape(const Graph& graph, const Op& op) {
  return ElementwiseShape(graph, op, 1);
}

Cost OpCostOf(const Graph& graph, const Op& op, const CostPoint& point) {
  return PerValueCost(graph, op, point, kFlopsPerValue);
}

}  // namespace

constinit const OpSchema kSiluSchema = {
    .name = "silu",
    .make = [] { return OpAttrs(SiluAttrs{}); },
    .fields = [](OpAttrs&) { return std::vector<AttrField>(); },
    .shape = Shape,
    .cost = OpCostOf,
    .in_place = [](const Op&) { return std::vector<size_t>{0}; },
};

}  // namespace tenon
