// gelu: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), or the exact form with erf
// (arXiv 1606.08415).
#include "graph/ops/registry.h"
#include "graph/ops/shape_rules.h"

namespace tenon {
namespace {

constexpr double kFlopsPerValue = 9;  // six multiplications, two additions, tanh

Result<std::vector<ValueType>> Shape(const Graph& graph, const Op& op) {
  return ElementwiseShape(graph, op, 1);
}

Cost OpCostOf(const Graph& graph, const Op& op, const CostPoint& point) {
  return PerValueCost(graph, op, point, kFlopsPerValue);
}

}  // namespace

constinit const OpSchema kGeluSchema = {
    .name = "gelu",
    .make = [] { return OpAttrs(GeluAttrs{}); },
    .fields =
        [](OpAttrs& attrs) {
          return std::vector<AttrField>{
              {"exact", &std::get<GeluAttrs>(attrs).exact, FieldShown::kWhenChanged}};
        },
    .shape = Shape,
    .cost = OpCostOf,
    .in_place = [](const Op&) { return std::vector<size_t>{0}; },
};

}  // namespace tenon
