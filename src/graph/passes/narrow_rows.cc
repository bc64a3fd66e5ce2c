#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace tenon {
namespace {

// Ops whose rows come from the same rows of their inputs and from nothing else.
bool WorksRowByRow(const Op& op) {
  return std::holds_alternative<RmsNormAttrs>(op.attrs) ||
         std::holds_alternative<LayerNormAttrs>(op.attrs) ||
         std::holds_alternative<LinearAttrs>(op.attrs) ||
         std::holds_alternative<AddAttrs>(op.attrs) || std::holds_alternative<MulAttrs>(op.attrs) ||
         std::holds_alternative<ScaleAttrs>(op.attrs) ||
         std::holds_alternative<SiluAttrs>(op.attrs) ||
         std::holds_alternative<GeluAttrs>(op.attrs) ||
         std::holds_alternative<ReluAttrs>(op.attrs) ||
         std::holds_alternative<SoftcapAttrs>(op.attrs) ||
         std::holds_alternative<RouteAttrs>(op.attrs) ||
         std::holds_alternative<ExpertsAttrs>(op.attrs) ||
         std::holds_alternative<GateRowsAttrs>(op.attrs);
}

// The rows that all users of the op's one result select from it, if that is all that is done with
// it.
std::optional<ValueId> SelectedRows(const Graph& graph, const UseMap& uses, const Op& op) {
  if (!WorksRowByRow(op) || op.outputs.size() != 1 || uses.IsGraphOutput(op.outputs[0]))
    return std::nullopt;
  std::optional<ValueId> rows;
  for (const OpId user : uses.Users(op.outputs[0])) {
    const Op& select = graph.op(user);
    const auto* attrs = std::get_if<SelectRowsAttrs>(&select.attrs);
    if (attrs == nullptr || attrs->pooling != 0 || (rows && *rows != select.inputs[1]))
      return std::nullopt;
    rows = select.inputs[1];
  }
  return rows;
}

Op MakeSelect(Graph& graph, ValueId x, ValueId rows) {
  const Value& source = graph.value(x);
  Value selected;
  selected.name = source.name + " of output rows";
  selected.shape = {graph.value(rows).shape[0], source.shape[1]};
  selected.place = source.place;
  Op op{selected.name, SelectRowsAttrs{}, {x, rows}, {}, selected.place};
  op.outputs = {graph.AddValue(std::move(selected))};
  return op;
}

// Makes op `index` compute only `rows`, before which its inputs' rows are selected.
void Narrow(Graph& graph, size_t index, ValueId rows, const UseMap& uses) {
  Op op = graph.ops()[index];
  std::vector<bool> removed(graph.ops().size(), false);
  for (const OpId user : uses.Users(op.outputs[0])) {
    ReplaceUses(graph, graph.op(user).outputs[0], op.outputs[0]);
    removed[user.index()] = true;
  }
  graph.mutable_value(op.outputs[0]).shape[0] = graph.value(rows).shape[0];
  std::vector<Op> selects;
  for (ValueId& input : op.inputs) {
    if (graph.value(input).kind == ValueKind::kWeight)
      continue;
    selects.push_back(MakeSelect(graph, input, rows));
    input = selects.back().outputs[0];
  }
  graph.mutable_ops()[index] = std::move(op);
  RemoveOps(graph, removed);
  // The selects that went came after the op, so its place is the same.
  std::vector<Op>& ops = graph.mutable_ops();
  ops.insert(ops.begin() + static_cast<std::ptrdiff_t>(index), selects.begin(), selects.end());
  graph.RefreshProducers();
}

// Narrows the last op that can be; false when there is none.
bool NarrowLast(Graph& graph) {
  const UseMap uses(graph);
  for (size_t i = graph.ops().size(); i-- > 0;) {
    if (const auto rows = SelectedRows(graph, uses, graph.ops()[i])) {
      Narrow(graph, i, *rows, uses);
      return true;
    }
  }
  return false;
}

}  // namespace

Status NarrowRows(Graph& graph, const PassOptions& options) {
  bool changed = false;
  while (NarrowLast(graph))
    changed = true;
  // Ops with a common input have each selected its rows.
  return changed ? CommonSubexpressions(graph, options) : Status();
}

}  // namespace tenon
