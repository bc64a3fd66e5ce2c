// join_heads: heads of two values side by side, the second one's own or one for all.
#include <limits>

#include "graph/ops/registry.h"
#include "graph/ops/shape_rules.h"

namespace tenon {
namespace {

Result<std::vector<ValueType>> Shape(const Graph& graph, const Op& op) {
  const auto& attrs = std::get<JoinHeadsAttrs>(op.attrs);
  const ShapeRules rules(graph, op);
  TENON_RETURN_IF_ERROR(rules.Arity(1, 2));
  TENON_RETURN_IF_ERROR(rules.Activation(0));
  const int64_t columns = rules.columns(0);
  if (attrs.heads < 1 || columns % attrs.heads != 0)
    return rules.AttrError("heads", attrs.heads,
                           fmt::format("a divisor of the {} columns", columns));
  // Above this, sums of columns could overflow; no model comes near.
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (attrs.zeros < 0 || attrs.zeros > kMost / attrs.heads)
    return rules.AttrError("zeros", attrs.zeros, fmt::format("0 to {}", kMost / attrs.heads));
  int64_t joined = columns + attrs.zeros * attrs.heads;
  if (rules.input_count() > 1) {
    TENON_RETURN_IF_ERROR(rules.Activation(1));
    const int64_t second = rules.columns(1);
    if (rules.rows(1) != rules.rows(0) || (!attrs.shared && second % attrs.heads != 0) ||
        second > kMost / attrs.heads)
      return rules.InputError(1, "the rows of input 0, and columns for every head");
    joined += attrs.shared ? second * attrs.heads : second;
  }
  return std::vector<ValueType>{{DType::kF32, {rules.rows(0), Dim{Symbol::kNone, joined}}}};
}

Cost OpCostOf(const Graph& graph, const Op& op, const CostPoint& point) {
  return MovedBytes(graph, op, point);
}

std::vector<AttrField> Fields(OpAttrs& any) {
  auto& attrs = std::get<JoinHeadsAttrs>(any);
  return {{"heads", &attrs.heads},
          {"shared", &attrs.shared, FieldShown::kWhenChanged},
          {"zeros", &attrs.zeros, FieldShown::kWhenChanged}};
}

}  // namespace

constinit const OpSchema kJoinHeadsSchema = {
    .name = "join_heads",
    .make = [] { return OpAttrs(JoinHeadsAttrs{}); },
    .fields = Fields,
    .shape = Shape,
    .cost = OpCostOf,
};

}  // namespace tenon
