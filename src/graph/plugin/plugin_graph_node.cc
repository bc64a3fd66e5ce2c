#include "graph/plugin/plugin_graph_node.h"

namespace tenon {

std::vector<int64_t> PluginExtents(const std::vector<Dim>& shape, const PluginSizes& sizes) {
  std::vector<int64_t> extents;
  for (const Dim& dim : shape) {
    const int64_t symbol = dim.symbol == Symbol::kTokens    ? sizes.tokens
                           : dim.symbol == Symbol::kOutputs ? sizes.outputs
                                                            : 1;
    extents.push_back(symbol * dim.extent);
  }
  return extents;
}

PluginGraphNode::PluginGraphNode(const Graph& graph, const Op& op, const PluginSizes& sizes)
    : attrs_(std::get<PluginAttrs>(op.attrs)) {
  for (const ValueId id : op.inputs)
    shapes_.push_back(PluginExtents(graph.value(id).shape, sizes));
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const bool ids = graph.value(op.inputs[i]).dtype == DType::kI32;
    inputs_.push_back({ids ? TENON_I32 : TENON_F32, static_cast<int32_t>(shapes_[i].size()),
                       shapes_[i].data(), nullptr});
  }
}

std::optional<TenonTensor> PluginGraphNode::Input(uint32_t index) const {
  return index < inputs_.size() ? std::optional(inputs_[index]) : std::nullopt;
}

PluginAttribute PluginGraphNode::Find(std::string_view attribute) const {
  for (const PluginValue& value : attrs_.values) {
    if (value.name == attribute)
      return std::visit([](const auto& found) { return PluginAttribute(&found); }, value.value);
  }
  return {};
}

}  // namespace tenon
