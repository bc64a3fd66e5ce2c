// gate_rows: each row times the sigmoid of a number of its own.
#include "graph/ops/registry.h"
#include "graph/ops/shape_rules.h"

namespace tenon {
namespace {

constexpr double kFlopsPerValue = 1;  // one multiplication; the sigmoid is one a row

Result<std::vector<ValueType>> Shape(const Graph& graph, const Op& op) {
  const ShapeRules rules(graph, op);
  TENON_RETURN_IF_ERROR(rules.Arity(2, 2));
  TENON_RETURN_IF_ERROR(rules.Activation(0));
  TENON_RETURN_IF_ERROR(rules.ExactType(1, {DType::kF32, {rules.rows(0), Dim{Symbol::kNone, 1}}}));
  return std::vector<ValueType>{{DType::kF32, rules.input(0).shape}};
}

Cost OpCostOf(const Graph& graph, const Op& op, const CostPoint& point) {
  return PerValueCost(graph, op, point, kFlopsPerValue);
}

}  // namespace

constinit const OpSchema kGateRowsSchema = {
    .name = "gate_rows",
    .make = [] { return OpAttrs(GateRowsAttrs{}); },
    .fields = [](OpAttrs&) { return std::vector<AttrField>(); },
    .shape = Shape,
    .cost = OpCostOf,
    .in_place = [](const Op&) { return std::vector<size_t>{0}; },
};

}  // namespace tenon
