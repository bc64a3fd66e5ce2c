// rope: pairs of a head's values rotated by angles of the token's position (arXiv 2104.09864).
#include "graph/ops/registry.h"
#include "graph/ops/shape_rules.h"

namespace tenon {
namespace {

constexpr size_t kPositionsInput = 1;

Result<std::vector<ValueType>> Shape(const Graph& graph, const Op& op) {
  const auto& attrs = std::get<RopeAttrs>(op.attrs);
  const ShapeRules rules(graph, op);
  TENON_RETURN_IF_ERROR(rules.Arity(2, 3));
  TENON_RETURN_IF_ERROR(rules.Activation(0));
  if (attrs.head_dim <= 0 || rules.columns(0) % attrs.head_dim != 0)
    return rules.AttrError("head_dim", attrs.head_dim,
                           fmt::format("a divisor of the {} columns", rules.columns(0)));
  TENON_RETURN_IF_ERROR(CheckRope(rules, attrs.rope, attrs.head_dim));
  TENON_RETURN_IF_ERROR(CheckPositions(rules, kPositionsInput, attrs.rope));
  return std::vector<ValueType>{{DType::kF32, rules.input(0).shape}};
}

Cost OpCostOf(const Graph& graph, const Op& op, const CostPoint& point) {
  const auto& attrs = std::get<RopeAttrs>(op.attrs);
  Cost cost = MovedBytes(graph, op, point);
  cost.flops = RopeFlops(
      ElementCount(graph.value(op.outputs[0]), point) / static_cast<double>(attrs.head_dim),
      attrs.rope);
  return cost;
}

std::vector<AttrField> Fields(OpAttrs& any) {
  auto& attrs = std::get<RopeAttrs>(any);
  std::vector<AttrField> fields = {{"head_dim", &attrs.head_dim}};
  AppendRopeFields(attrs.rope, fields);
  return fields;
}

}  // namespace

constinit const OpSchema kRopeSchema = {
    .name = "rope",
    .make = [] { return OpAttrs(RopeAttrs{}); },
    .fields = Fields,
    .shape = Shape,
    .cost = OpCostOf,
    .in_place = [](const Op&) { return std::vector<size_t>{0}; },
};

}  // namespace tenon
