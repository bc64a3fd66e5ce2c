// softcap: cap * tanh(x / cap).
#include <cmath>

#include "graph/ops/registry.h"
#include "graph/ops/shape_rules.h"

namespace tenon {
namespace {

constexpr double kFlopsPerValue = 3;  // division, tanh, multiplication

Result<std::vector<ValueType>> Shape(const Graph& graph, const Op& op) {
  const float cap = std::get<SoftcapAttrs>(op.attrs).cap;
  if (!std::isfinite(cap) || cap <= 0.0F)
    return ShapeRules(graph, op).AttrError("cap", cap, "a number above 0");
  return ElementwiseShape(graph, op, 1);
}

Cost OpCostOf(const Graph& graph, const Op& op, const CostPoint& point) {
  return PerValueCost(graph, op, point, kFlopsPerValue);
}

}  // namespace

constinit const OpSchema kSoftcapSchema = {
    .name = "softcap",
    .make = [] { return OpAttrs(SoftcapAttrs{}); },
    .fields =
        [](OpAttrs& attrs) {
          return std::vector<AttrField>{{"cap", &std::get<SoftcapAttrs>(attrs).cap}};
        },
    .shape = Shape,
    .cost = OpCostOf,
    .in_place = [](const Op&) { return std::vector<size_t>{0}; },
};

}  // namespace tenon
