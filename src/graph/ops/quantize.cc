// quantize: F32 activations to kActI8 or kActI16 (hal/kernel_set.h).
#include "graph/ops/registry.h"
#include "graph/ops/shape_rules.h"

namespace tenon {
namespace {

// The group's maximum, the product with 1/scale, the rounding and the sum.
constexpr double kFlopsPerValue = 4;

Result<std::vector<ValueType>> Shape(const Graph& graph, const Op& op) {
  const ShapeRules rules(graph, op);
  const int64_t bits = std::get<QuantizeAttrs>(op.attrs).bits;
  if (bits != 8 && bits != 16)
    return rules.AttrError("bits", bits, "8 or 16");
  TENON_RETURN_IF_ERROR(rules.Arity(1, 1));
  TENON_RETURN_IF_ERROR(rules.Activation(0));
  const DType dtype = bits == 8 ? DType::kActI8 : DType::kActI16;
  const int64_t group = GetDTypeInfo(dtype).block_elements;
  if (rules.columns(0) % group != 0)
    return rules.InputError(0, fmt::format("columns in whole groups of {}", group));
  return std::vector<ValueType>{{dtype, rules.input(0).shape}};
}

Cost OpCostOf(const Graph& graph, const Op& op, const CostPoint& point) {
  return PerValueCost(graph, op, point, kFlopsPerValue);
}

std::vector<AttrField> Fields(OpAttrs& any) {
  return {{"bits", &std::get<QuantizeAttrs>(any).bits, FieldShown::kWhenChanged}};
}

}  // namespace

constinit const OpSchema kQuantizeSchema = {
    .name = "quantize",
    .make = [] { return OpAttrs(QuantizeAttrs{}); },
    .fields = Fields,
    .shape = Shape,
    .cost = OpCostOf,
};

}  // namespace tenon
