// mul: a * b, elementwise.
#include "graph/ops/registry.h"
#include "graph/ops/shape_rules.h"

namespace tenon {
namespace {

constexpr double kFlopsPerValue = 1;  // one multiplication

Result<std::vector<ValueType>> Shape(const Graph& graph, const Op& op) {
  return ElementwiseShape(graph, op, 2);
}

Cost OpCostOf(const Graph& graph, const Op& op, const CostPoint& point) {
  return PerValueCost(graph, op, point, kFlopsPerValue);
}

}  // namespace

constinit const OpSchema kMulSchema = {
    .name = "mul",
    .make = [] { return OpAttrs(MulAttrs{}); },
    .fields = [](OpAttrs&) { return std::vector<AttrField>(); },
    .shape = Shape,
    .cost = OpCostOf,
    .in_place = [](const Op&) { return std::vector<size_t>{0, 1}; },
};

}  // namespace tenon
