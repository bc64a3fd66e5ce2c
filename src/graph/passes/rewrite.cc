#include "graph/passes/rewrite.h"

#include <utility>
#include <variant>

#include "base/check.h"

namespace tenon {

UseMap::UseMap(const Graph& graph)
    : uses_(graph.values().size()), output_uses_(graph.values().size(), 0) {
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    for (const ValueId id : graph.ops()[i].inputs)
      uses_[id.index()].push_back(OpId(static_cast<uint32_t>(i)));
  }
  for (const ValueId id : graph.outputs())
    ++output_uses_[id.index()];
}

OpId UseMap::OnlyUser(ValueId id) const {
  return UseCount(id) == 1 && !IsGraphOutput(id) ? uses_[id.index()][0] : OpId();
}

void ReplaceUses(Graph& graph, ValueId from, ValueId to) {
  for (Op& op : graph.mutable_ops()) {
    for (ValueId& input : op.inputs) {
      if (input == from)
        input = to;
    }
  }
  for (ValueId& output : graph.mutable_outputs()) {
    if (output == from)
      output = to;
  }
}

void RemoveOps(Graph& graph, const std::vector<bool>& removed) {
  std::vector<Op>& ops = graph.mutable_ops();
  TENON_CHECK(removed.size() == ops.size());
  size_t kept = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (removed[i])
      continue;
    if (kept != i)
      ops[kept] = std::move(ops[i]);
    ++kept;
  }
  ops.resize(kept);
  graph.RefreshProducers();
}

WeightClass ClassOf(const Graph& graph, std::span<const ValueId> weights) {
  const auto wanted = [&](ValueId id) {
    const Value& weight = graph.value(id);
    return ActivationTypeFor(weight.dtype, weight.shape.back().extent);
  };
  if (weights.empty())
    return WeightClass::kFloat;
  const DType first = wanted(weights.front());
  for (const ValueId id : weights) {
    if (wanted(id) != first)
      return WeightClass::kMixed;
  }
  if (first == DType::kActI8)
    return WeightClass::kQuantized;
  return first == DType::kActI16 ? WeightClass::kHalf : WeightClass::kFloat;
}

std::span<const ValueId> LinearWeights(const Op& op) {
  const auto& attrs = std::get<LinearAttrs>(op.attrs);
  return std::span(op.inputs).subspan(1, static_cast<size_t>(attrs.weight_count));
}

std::span<const ValueId> LinearBiases(const Op& op) {
  const auto& attrs = std::get<LinearAttrs>(op.attrs);
  const size_t count = static_cast<size_t>(attrs.weight_count);
  return std::span(op.inputs).subspan(1 + count, attrs.has_bias ? count : 0);
}

}  // namespace tenon
