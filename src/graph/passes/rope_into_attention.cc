#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace tenon {
namespace {

// The rope op that makes attention's input `i`, if it is used for that alone.
const Op* OwnRope(const Graph& graph, const UseMap& uses, const Op& attention, size_t i) {
  const ValueId value = attention.inputs[i];
  if (ProducedBy<RopeAttrs>(graph, value) == nullptr || !uses.OnlyUser(value).valid())
    return nullptr;
  return &graph.op(graph.value(value).producer);
}

// Attention takes one set of parameters, positions and frequency factors for q and k.
bool MayFuse(const Op& attention, const Op& q, const Op& k) {
  const auto& attrs = std::get<AttentionAttrs>(attention.attrs);
  const auto& rope = std::get<RopeAttrs>(q.attrs);
  const std::vector<ValueId> q_sources(q.inputs.begin() + 1, q.inputs.end());
  const std::vector<ValueId> k_sources(k.inputs.begin() + 1, k.inputs.end());
  return !attrs.fused_rope && rope == std::get<RopeAttrs>(k.attrs) &&
         rope.head_dim == attrs.head_dim && q_sources == k_sources &&
         q_sources[0] == attention.inputs[3];
}

void Fuse(Op& attention, const Op& q, const Op& k) {
  auto& attrs = std::get<AttentionAttrs>(attention.attrs);
  attrs.fused_rope = true;
  attrs.rope = std::get<RopeAttrs>(q.attrs).rope;
  attention.inputs[0] = q.inputs[0];
  attention.inputs[1] = k.inputs[0];
  attention.inputs.insert(attention.inputs.end(), q.inputs.begin() + 2, q.inputs.end());
}

}  // namespace

Status RopeIntoAttention(Graph& graph, const PassOptions&) {
  const UseMap uses(graph);
  std::vector<bool> removed(graph.ops().size(), false);
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    Op& op = graph.mutable_ops()[i];
    if (!std::holds_alternative<AttentionAttrs>(op.attrs))
      continue;
    const Op* q = OwnRope(graph, uses, op, 0);
    const Op* k = OwnRope(graph, uses, op, 1);
    if (q == nullptr || k == nullptr || !MayFuse(op, *q, *k))
      continue;
    for (size_t input = 0; input < 2; ++input)
      removed[graph.value(op.inputs[input]).producer.index()] = true;
    Fuse(op, *q, *k);
  }
  RemoveOps(graph, removed);
  return {};
}

}  // namespace tenon
