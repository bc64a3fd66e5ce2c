// What rewrites share: who uses a value, replacing uses, removing ops.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace tenon {

// Users of every value at the time of construction. A graph output counts as a use by nobody.
class UseMap {
 public:
  explicit UseMap(const Graph& graph);

  // Number of op inputs and graph outputs that are this value.
  size_t UseCount(ValueId id) const { return uses_[id.index()].size() + output_uses_[id.index()]; }
  // The op that is the value's one and only use; invalid when there are more or it is an output.
  OpId OnlyUser(ValueId id) const;
  bool IsGraphOutput(ValueId id) const { return output_uses_[id.index()] > 0; }
  // One entry for each op input, in order.
  const std::vector<OpId>& Users(ValueId id) const { return uses_[id.index()]; }

 private:
  std::vector<std::vector<OpId>> uses_;
  std::vector<size_t> output_uses_;
};

// The attributes of the op that produces `id`, or null when that is another kind of op or none.
template <class Attrs>
const Attrs* ProducedBy(const Graph& graph, ValueId id) {
  const OpId producer = graph.value(id).producer;
  return producer.valid() ? std::get_if<Attrs>(&graph.op(producer).attrs) : nullptr;
}

// Makes every op and the graph's outputs read `to` instead of `from`.
void ReplaceUses(Graph& graph, ValueId from, ValueId to);

// Removes the marked ops (one flag for each) and refreshes producers.
void RemoveOps(Graph& graph, const std::vector<bool>& removed);

// Types of the weights of a linear, by what they are multiplied with: kHalf are F16 and BF16 in
// whole blocks (ActivationTypeFor). Mixed ones are never fused or quantized.
enum class WeightClass : uint8_t { kFloat, kHalf, kQuantized, kMixed };
WeightClass ClassOf(const Graph& graph, std::span<const ValueId> weights);

// The parts of a linear's inputs, in the order of attrs.h. REQUIRES: a verified linear.
std::span<const ValueId> LinearWeights(const Op& op);
std::span<const ValueId> LinearBiases(const Op& op);

}  // namespace tenon
