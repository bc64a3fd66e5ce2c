#include <utility>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace tenon {
namespace {

// Whether the op that produces `value` can add a residual to it, and nobody else needs it without.
bool CanAddResidual(const Graph& graph, const UseMap& uses, ValueId value) {
  if (!uses.OnlyUser(value).valid())
    return false;
  if (const auto* linear = ProducedBy<LinearAttrs>(graph, value))
    return linear->epilogue == Epilogue::kNone && linear->weight_count == 1;
  const auto* norm = ProducedBy<RmsNormAttrs>(graph, value);
  return norm != nullptr && !norm->add_residual;
}

// The addition becomes the fused op, so both of its inputs are defined before it.
void Fuse(Op& add, const Op& producer, ValueId residual) {
  add.name = producer.name;
  add.attrs = producer.attrs;
  add.inputs = producer.inputs;
  add.inputs.push_back(residual);
  if (auto* linear = std::get_if<LinearAttrs>(&add.attrs))
    linear->epilogue = Epilogue::kAddResidual;
  else
    std::get<RmsNormAttrs>(add.attrs).add_residual = true;
}

}  // namespace

Status ResidualEpilogue(Graph& graph, const PassOptions&) {
  const UseMap uses(graph);
  std::vector<bool> removed(graph.ops().size(), false);
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    Op& op = graph.mutable_ops()[i];
    if (!std::holds_alternative<AddAttrs>(op.attrs))
      continue;
    ValueId branch = op.inputs[0];
    ValueId residual = op.inputs[1];
    const bool first = CanAddResidual(graph, uses, branch);
    const bool second = CanAddResidual(graph, uses, residual);
    if (!first && !second)
      continue;
    // Of two that can, the later one: the other's result is then the one that is already there.
    if (!first || (second && graph.value(residual).producer > graph.value(branch).producer))
      std::swap(branch, residual);
    const OpId producer = graph.value(branch).producer;
    Fuse(op, graph.op(producer), residual);
    removed[producer.index()] = true;
  }
  RemoveOps(graph, removed);
  return {};
}

}  // namespace tenon
