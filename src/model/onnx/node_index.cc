#include "model/onnx/node_index.h"

namespace tenon {

const OnnxAttribute* FindAttribute(const OnnxNode& node, std::string_view name) {
  for (const OnnxAttribute& attribute : node.attributes) {
    if (attribute.name == name)
      return &attribute;
  }
  return nullptr;
}

int64_t IntegerOr(const OnnxNode& node, std::string_view name, int64_t otherwise) {
  const OnnxAttribute* attribute = FindAttribute(node, name);
  return attribute == nullptr ? otherwise : attribute->i;
}

float FloatOr(const OnnxNode& node, std::string_view name, float otherwise) {
  const OnnxAttribute* attribute = FindAttribute(node, name);
  return attribute == nullptr ? otherwise : attribute->f;
}

std::string_view InputOf(const OnnxNode& node, size_t i) {
  return i < node.inputs.size() ? std::string_view(node.inputs[i]) : std::string_view();
}

std::string_view OutputOf(const OnnxNode& node, size_t i) {
  return i < node.outputs.size() ? std::string_view(node.outputs[i]) : std::string_view();
}

NodeIndex::NodeIndex(const OnnxGraph& graph) {
  for (const OnnxTensor& tensor : graph.initializers)
    initializers_.emplace(tensor.name, &tensor);
  for (const OnnxNode& node : graph.nodes) {
    for (const std::string& output : node.outputs) {
      if (!output.empty())
        producers_.emplace(output, &node);
    }
    for (const std::string& input : node.inputs) {
      if (!input.empty())
        consumers_[input].push_back(&node);
    }
  }
}

const OnnxNode* NodeIndex::Producer(std::string_view value) const {
  const auto found = producers_.find(value);
  return found == producers_.end() ? nullptr : found->second;
}

const OnnxTensor* NodeIndex::Initializer(std::string_view value) const {
  const auto found = initializers_.find(value);
  return found == initializers_.end() ? nullptr : found->second;
}

const std::vector<const OnnxNode*>& NodeIndex::Consumers(std::string_view value) const {
  const auto found = consumers_.find(value);
  return found == consumers_.end() ? none_ : found->second;
}

}  // namespace tenon
