// route: from a router's logits to the weights of the experts that each token is sent to
// (arXiv 2101.03961; groups: DeepSeek-V2, arXiv 2405.04434; bias: DeepSeek-V3, arXiv 2412.19437).
#include <cmath>

#include "graph/ops/registry.h"
#include "graph/ops/shape_rules.h"

namespace tenon {
namespace {

// Of one logit: as in softmax, then the comparisons of the choice, taken as one a logit.
constexpr double kFlopsPerValue = 5;
constexpr size_t kBiasInput = 1;

Status CheckGroups(const ShapeRules& rules, const RouteAttrs& attrs) {
  const int64_t experts = rules.columns(0);
  if (attrs.groups < 1 || experts % attrs.groups != 0)
    return rules.AttrError("groups", attrs.groups,
                           fmt::format("a divisor of the {} experts", experts));
  const int64_t size = experts / attrs.groups;
  if (attrs.used_groups < 1 || attrs.used_groups > attrs.groups)
    return rules.AttrError("used_groups", attrs.used_groups,
                           fmt::format("1 to the {} groups", attrs.groups));
  if (attrs.group_best < 1 || attrs.group_best > size)
    return rules.AttrError("group_best", attrs.group_best,
                           fmt::format("1 to the {} experts of a group", size));
  if (attrs.used < 1 || attrs.used > attrs.used_groups * size)
    return rules.AttrError(
        "used", attrs.used,
        fmt::format("1 to the {} experts of the groups that are used", attrs.used_groups * size));
  return {};
}

Result<std::vector<ValueType>> Shape(const Graph& graph, const Op& op) {
  const auto& attrs = std::get<RouteAttrs>(op.attrs);
  const ShapeRules rules(graph, op);
  TENON_RETURN_IF_ERROR(rules.Arity(1, 2));
  TENON_RETURN_IF_ERROR(rules.Activation(0));
  TENON_RETURN_IF_ERROR(CheckGroups(rules, attrs));
  if (!std::isfinite(attrs.scale))
    return rules.AttrError("scale", attrs.scale, "a finite number");
  if (rules.input_count() > kBiasInput) {
    TENON_RETURN_IF_ERROR(
        rules.ExactType(kBiasInput, {DType::kF32, {Dim{Symbol::kNone, rules.columns(0)}}}));
  }
  return std::vector<ValueType>{{DType::kF32, rules.input(0).shape}};
}

Cost OpCostOf(const Graph& graph, const Op& op, const CostPoint& point) {
  return PerValueCost(graph, op, point, kFlopsPerValue);
}

std::vector<AttrField> Fields(OpAttrs& any) {
  auto& attrs = std::get<RouteAttrs>(any);
  return {{"used", &attrs.used},
          {"sigmoid", &attrs.sigmoid, FieldShown::kWhenChanged},
          {"normalized", &attrs.normalized, FieldShown::kWhenChanged},
          {"scale", &attrs.scale, FieldShown::kWhenChanged},
          {"groups", &attrs.groups, FieldShown::kWhenChanged},
          {"used_groups", &attrs.used_groups, FieldShown::kWhenChanged},
          {"group_best", &attrs.group_best, FieldShown::kWhenChanged}};
}

}  // namespace

constinit const OpSchema kRouteSchema = {
    .name = "route",
    .make = [] { return OpAttrs(RouteAttrs{}); },
    .fields = Fields,
    .shape = Shape,
    .cost = OpCostOf,
};

}  // namespace tenon
