// slice_heads: the same columns of every head.
#include "graph/ops/registry.h"
#include "graph/ops/shape_rules.h"

namespace tenon {
namespace {

Result<std::vector<ValueType>> Shape(const Graph& graph, const Op& op) {
  const auto& attrs = std::get<SliceHeadsAttrs>(op.attrs);
  const ShapeRules rules(graph, op);
  TENON_RETURN_IF_ERROR(rules.Arity(1, 1));
  TENON_RETURN_IF_ERROR(rules.Activation(0));
  const int64_t columns = rules.columns(0);
  if (attrs.heads < 1 || columns % attrs.heads != 0)
    return rules.AttrError("heads", attrs.heads,
                           fmt::format("a divisor of the {} columns", columns));
  const int64_t head_dim = columns / attrs.heads;
  if (attrs.begin < 0 || attrs.begin >= head_dim)
    return rules.AttrError("begin", attrs.begin, fmt::format("a column of a head of {}", head_dim));
  if (attrs.count < 1 || attrs.count > head_dim - attrs.begin)
    return rules.AttrError("count", attrs.count, fmt::format("1 to {}", head_dim - attrs.begin));
  return std::vector<ValueType>{
      {DType::kF32, {rules.rows(0), Dim{Symbol::kNone, attrs.heads * attrs.count}}}};
}

Cost OpCostOf(const Graph& graph, const Op& op, const CostPoint& point) {
  Cost cost;
  cost.activation_bytes = 2 * ValueBytes(graph.value(op.outputs[0]), point);
  return cost;
}

std::vector<AttrField> Fields(OpAttrs& any) {
  auto& attrs = std::get<SliceHeadsAttrs>(any);
  return {{"heads", &attrs.heads}, {"begin", &attrs.begin}, {"count", &attrs.count}};
}

}  // namespace

constinit const OpSchema kSliceHeadsSchema = {
    .name = "slice_heads",
    .make = [] { return OpAttrs(SliceHeadsAttrs{}); },
    .fields = Fields,
    .shape = Shape,
    .cost = OpCostOf,
};

}  // namespace tenon
