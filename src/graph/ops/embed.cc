// embed: rows of a table by token id, times a scale.
#include <cmath>

#include "graph/ops/registry.h"
#include "graph/ops/shape_rules.h"

namespace tenon {
namespace {

Result<std::vector<ValueType>> Shape(const Graph& graph, const Op& op) {
  const ShapeRules rules(graph, op);
  TENON_RETURN_IF_ERROR(rules.Arity(2, 2));
  if (rules.input(0).dtype != DType::kI32 || rules.input(0).shape.size() != 1)
    return rules.InputError(0, "i32[tokens]");
  TENON_RETURN_IF_ERROR(rules.WeightMatrix(1));
  const float scale = std::get<EmbedAttrs>(op.attrs).scale;
  if (!std::isfinite(scale))
    return rules.AttrError("scale", scale, "a finite number");
  const Dim columns{Symbol::kNone, rules.columns(1)};
  return std::vector<ValueType>{{DType::kF32, {rules.rows(0), columns}}};
}

// Of the table, only the tokens' rows are read.
Cost OpCostOf(const Graph& graph, const Op& op, const CostPoint& point) {
  const Value& table = graph.value(op.inputs[1]);
  const double elements = ElementCount(graph.value(op.outputs[0]), point);
  const DTypeInfo& info = GetDTypeInfo(table.dtype);
  Cost cost = MovedBytes(graph, op, point);
  cost.weight_bytes = elements * info.block_bytes / info.block_elements;
  cost.flops = std::get<EmbedAttrs>(op.attrs).scale == 1.0F ? 0 : elements;
  return cost;
}

}  // namespace

constinit const OpSchema kEmbedSchema = {
    .name = "embed",
    .make = [] { return OpAttrs(EmbedAttrs{}); },
    .fields =
        [](OpAttrs& attrs) {
          return std::vector<AttrField>{
              {"scale", &std::get<EmbedAttrs>(attrs).scale, FieldShown::kWhenChanged}};
        },
    .shape = Shape,
    .cost = OpCostOf,
};

}  // namespace tenon
