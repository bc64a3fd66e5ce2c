// PluginGraphNode: an op of a graph as the operator of a plug-in sees it.
//
// Types and shapes are the graph's, with numbers for its symbols: weights are float32, whatever
// the file holds. Refers to the graph and the op. Threading: const.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/plugin/plugin_call.h"

namespace tenon {

// N and R of a step.
struct PluginSizes {
  int64_t tokens = 1;
  int64_t outputs = 1;
};

class PluginGraphNode final : public PluginNode {
 public:
  // Without data: for shape functions. REQUIRES: the op's attributes are PluginAttrs, its inputs
  // are values of `graph` of at most TENON_PLUGIN_MAX_RANK dimensions.
  PluginGraphNode(const Graph& graph, const Op& op, const PluginSizes& sizes);
  // The inputs are given: for executors, which have no graph. They and `attrs` outlive this.
  PluginGraphNode(const PluginAttrs& attrs, std::vector<TenonTensor> inputs)
      : attrs_(attrs), inputs_(std::move(inputs)) {}
  PluginGraphNode(const PluginGraphNode&) = delete;
  PluginGraphNode& operator=(const PluginGraphNode&) = delete;

  uint32_t input_count() const override { return static_cast<uint32_t>(inputs_.size()); }
  std::optional<TenonTensor> Input(uint32_t index) const override;
  PluginAttribute Find(std::string_view attribute) const override;

 private:
  const PluginAttrs& attrs_;
  std::vector<std::vector<int64_t>> shapes_;  // of the inputs
  std::vector<TenonTensor> inputs_;
};

// The shape's numbers, with the symbols' values filled in.
std::vector<int64_t> PluginExtents(const std::vector<Dim>& shape, const PluginSizes& sizes);

}  // namespace tenon
