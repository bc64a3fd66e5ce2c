#include <algorithm>
#include <map>
#include <utility>

#include "graph/ops/registry.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace tenon {
namespace {

bool IsCommutative(const OpAttrs& attrs) {
  return std::holds_alternative<AddAttrs>(attrs) || std::holds_alternative<MulAttrs>(attrs);
}

// Kind of op and inputs; ops that agree in it may still differ in attributes.
using Key = std::pair<size_t, std::vector<ValueId>>;

Key KeyOf(const Op& op) {
  Key key(op.attrs.index(), op.inputs);
  if (IsCommutative(op.attrs))
    std::sort(key.second.begin(), key.second.end());
  return key;
}

bool SameResults(const Graph& graph, const Op& a, const Op& b) {
  if (a.attrs != b.attrs || a.place != b.place || a.outputs.size() != b.outputs.size())
    return false;
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    if (graph.value(a.outputs[i]).dtype != graph.value(b.outputs[i]).dtype)
      return false;
  }
  return true;
}

}  // namespace

Status CommonSubexpressions(Graph& graph, const PassOptions&) {
  std::map<Key, std::vector<size_t>> seen;
  std::vector<bool> removed(graph.ops().size(), false);
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    if (SchemaOf(op.attrs).effect != OpEffect::kPure)
      continue;
    std::vector<size_t>& candidates = seen[KeyOf(op)];
    const auto same = std::find_if(candidates.begin(), candidates.end(), [&](size_t earlier) {
      return SameResults(graph, graph.ops()[earlier], op);
    });
    if (same == candidates.end()) {
      candidates.push_back(i);
      continue;
    }
    removed[i] = true;
    for (size_t k = 0; k < op.outputs.size(); ++k)
      ReplaceUses(graph, op.outputs[k], graph.ops()[*same].outputs[k]);
  }
  RemoveOps(graph, removed);
  return {};
}

}  // namespace tenon
