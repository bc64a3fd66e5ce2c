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
  const auto& attrs = std::get<EmbedAttrs>(op.attrs);
  if (!std::isfinite(attrs.scale))
    return rules.AttrError("scale", attrs.scale, "a finite number");
  const int64_t rows = rules.rows(1).extent;
  if (attrs.offset < 0 || attrs.offset >= rows)
    return rules.AttrError("offset", attrs.offset, fmt::format("a row of {}", rows));
  if (attrs.only_row < -1 || attrs.only_row >= rows)
    return rules.AttrError("only_row", attrs.only_row, fmt::format("-1, or a row of {}", rows));
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
          auto& embed = std::get<EmbedAttrs>(attrs);
          return std::vector<AttrField>{{"scale", &embed.scale, FieldShown::kWhenChanged},
                                        {"offset", &embed.offset, FieldShown::kWhenChanged},
                                        {"only_row", &embed.only_row, FieldShown::kWhenChanged}};
        },
    .shape = Shape,
    .cost = OpCostOf,
};

}  // namespace tenon
