// select_rows: the rows of an activation whose logits are wanted.
#include "graph/ops/registry.h"
#include "graph/ops/shape_rules.h"

namespace tenon {
namespace {

Result<std::vector<ValueType>> Shape(const Graph& graph, const Op& op) {
  const ShapeRules rules(graph, op);
  TENON_RETURN_IF_ERROR(rules.Arity(2, 2));
  TENON_RETURN_IF_ERROR(rules.Activation(0));
  const uint8_t pooling = std::get<SelectRowsAttrs>(op.attrs).pooling;
  if (pooling > 2)
    return rules.AttrError("pooling", static_cast<int>(pooling), "0 to 2");
  if (rules.input(1).dtype != DType::kI32 || rules.input(1).shape.size() != 1)
    return rules.InputError(1, "i32[rows]");
  return std::vector<ValueType>{{DType::kF32, {rules.rows(1), rules.input(0).shape[1]}}};
}

// Only the selected rows are read.
Cost OpCostOf(const Graph& graph, const Op& op, const CostPoint& point) {
  Cost cost;
  cost.activation_bytes = 2 * ValueBytes(graph.value(op.outputs[0]), point) +
                          ValueBytes(graph.value(op.inputs[1]), point);
  return cost;
}

}  // namespace

constinit const OpSchema kSelectRowsSchema = {
    .name = "select_rows",
    .make = [] { return OpAttrs(SelectRowsAttrs{}); },
    .fields =
        [](OpAttrs& attrs) {
          return std::vector<AttrField>{
              {"pooling", &std::get<SelectRowsAttrs>(attrs).pooling, FieldShown::kWhenChanged}};
        },
    .shape = Shape,
    .cost = OpCostOf,
};

}  // namespace tenon
