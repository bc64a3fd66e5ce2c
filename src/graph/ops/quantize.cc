// quantize: F32 activations to kActI8 (hal/kernel_set.h).
#include "graph/ops/registry.h"
#include "graph/ops/shape_rules.h"

namespace tenon {
namespace {

// The group's maximum, the product with 1/scale, the rounding and the sum.
constexpr double kFlopsPerValue = 4;

Result<std::vector<ValueType>> Shape(const Graph& graph, const Op& op) {
  const ShapeRules rules(graph, op);
  TENON_RETURN_IF_ERROR(rules.Arity(1, 1));
  TENON_RETURN_IF_ERROR(rules.Activation(0));
  const int64_t group = GetDTypeInfo(DType::kActI8).block_elements;
  if (rules.columns(0) % group != 0)
    return rules.InputError(0, fmt::format("columns in whole groups of {}", group));
  return std::vector<ValueType>{{DType::kActI8, rules.input(0).shape}};
}

Cost OpCostOf(const Graph& graph, const Op& op, const CostPoint& point) {
  return PerValueCost(graph, op, point, kFlopsPerValue);
}

}  // namespace

constinit const OpSchema kQuantizeSchema = {
    .name = "quantize",
    .make = [] { return OpAttrs(QuantizeAttrs{}); },
    .fields = [](OpAttrs&) { return std::vector<AttrField>(); },
    .shape = Shape,
    .cost = OpCostOf,
};

}  // namespace tenon
