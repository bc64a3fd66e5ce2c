#include <string>
#include <utility>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace tenon {
namespace {

struct Parts {
  std::vector<ValueId> weights;
  std::vector<ValueId> biases;
  std::vector<ValueId> outputs;
};

void Append(std::vector<ValueId>& to, std::span<const ValueId> from) {
  to.insert(to.end(), from.begin(), from.end());
}

void AppendParts(Parts& parts, const Op& op) {
  Append(parts.weights, LinearWeights(op));
  Append(parts.biases, LinearBiases(op));
  Append(parts.outputs, op.outputs);
}

bool IsPlainLinear(const Op& op) {
  const auto* attrs = std::get_if<LinearAttrs>(&op.attrs);
  return attrs != nullptr && attrs->epilogue == Epilogue::kNone;
}

bool MayMerge(const Graph& graph, const Op& a, const Op& b) {
  const WeightClass weights = ClassOf(graph, LinearWeights(a));
  return a.place == b.place && weights != WeightClass::kMixed &&
         weights == ClassOf(graph, LinearWeights(b)) &&
         std::get<LinearAttrs>(a.attrs).has_bias == std::get<LinearAttrs>(b.attrs).has_bias;
}

// Merges the later linears on the same input into op `first`. They read the input and weights only,
// so they may all run where the first one does.
void MergeInto(Graph& graph, const UseMap& uses, size_t first, std::vector<bool>& removed) {
  Op& op = graph.mutable_ops()[first];
  const ValueId x = op.inputs[0];
  Parts parts;
  AppendParts(parts, op);
  std::string names = op.name;
  for (const OpId user : uses.Users(x)) {
    const Op& other = graph.op(user);
    if (user.index() <= first || removed[user.index()] || !IsPlainLinear(other) ||
        other.inputs[0] != x || !MayMerge(graph, op, other))
      continue;
    AppendParts(parts, other);
    names += " + " + other.name;
    removed[user.index()] = true;
  }
  op.name = std::move(names);
  op.attrs = LinearAttrs{static_cast<int64_t>(parts.weights.size()), !parts.biases.empty(),
                         Epilogue::kNone};
  op.inputs = {x};
  Append(op.inputs, parts.weights);
  Append(op.inputs, parts.biases);
  op.outputs = std::move(parts.outputs);
}

}  // namespace

Status MergeLinears(Graph& graph, const PassOptions&) {
  const UseMap uses(graph);
  std::vector<bool> removed(graph.ops().size(), false);
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    if (!removed[i] && IsPlainLinear(graph.ops()[i]))
      MergeInto(graph, uses, i, removed);
  }
  RemoveOps(graph, removed);
  return {};
}

}  // namespace tenon
