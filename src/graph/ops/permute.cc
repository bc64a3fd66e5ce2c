// permute: the columns of every row in another order.
#include "graph/ops/registry.h"
#include "graph/ops/shape_rules.h"

namespace tenon {
namespace {

// The order's numbers are floats: beyond this not every integer is one.
constexpr int64_t kMostColumns = int64_t{1} << 24;

Result<std::vector<ValueType>> Shape(const Graph& graph, const Op& op) {
  const ShapeRules rules(graph, op);
  TENON_RETURN_IF_ERROR(rules.Arity(2, 2));
  TENON_RETURN_IF_ERROR(rules.Activation(0));
  if (rules.columns(0) > kMostColumns)
    return rules.InputError(0, "at most 2^24 columns");
  TENON_RETURN_IF_ERROR(rules.ExactType(1, {DType::kF32, {Dim{Symbol::kNone, rules.columns(0)}}}));
  return std::vector<ValueType>{{DType::kF32, rules.input(0).shape}};
}

Cost OpCostOf(const Graph& graph, const Op& op, const CostPoint& point) {
  return PerValueCost(graph, op, point, 0);
}

}  // namespace

constinit const OpSchema kPermuteSchema = {
    .name = "permute",
    .make = [] { return OpAttrs(PermuteAttrs{}); },
    .fields = [](OpAttrs&) { return std::vector<AttrField>(); },
    .shape = Shape,
    .cost = OpCostOf,
    .may_quantize_output = [](const Op&) { return true; },
};

}  // namespace tenon
