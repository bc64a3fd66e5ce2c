#include "graph/ops/registry.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace tenon {

Status DeadCode(Graph& graph, const PassOptions&) {
  std::vector<bool> used(graph.values().size(), false);
  for (const ValueId id : graph.outputs())
    used[id.index()] = true;
  std::vector<bool> removed(graph.ops().size(), false);
  // Backwards: an op's users are settled before it.
  for (size_t i = graph.ops().size(); i-- > 0;) {
    const Op& op = graph.ops()[i];
    bool needed = SchemaOf(op.attrs).effect != OpEffect::kPure;
    for (const ValueId id : op.outputs)
      needed = needed || used[id.index()];
    removed[i] = !needed;
    for (const ValueId id : op.inputs)
      used[id.index()] = used[id.index()] || needed;
  }
  RemoveOps(graph, removed);
  return {};
}

}  // namespace tenon
