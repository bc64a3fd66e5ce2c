// NodeIndex: who makes and who reads each value of an ONNX graph, by name.
//
// Borrows the graph. Threading: const after construction.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/onnx/onnx_proto.h"

namespace tenon {

// The attribute, or null.
const OnnxAttribute* FindAttribute(const OnnxNode& node, std::string_view name);
int64_t IntegerOr(const OnnxNode& node, std::string_view name, int64_t otherwise);
float FloatOr(const OnnxNode& node, std::string_view name, float otherwise);

// Input or output `i`; empty when left out.
std::string_view InputOf(const OnnxNode& node, size_t i);
std::string_view OutputOf(const OnnxNode& node, size_t i);

class NodeIndex {
 public:
  explicit NodeIndex(const OnnxGraph& graph);

  // Null when a graph input, an initializer or nothing makes the value.
  const OnnxNode* Producer(std::string_view value) const;
  const OnnxTensor* Initializer(std::string_view value) const;
  // The nodes that read the value, in graph order.
  const std::vector<const OnnxNode*>& Consumers(std::string_view value) const;

 private:
  std::unordered_map<std::string_view, const OnnxNode*> producers_;
  std::unordered_map<std::string_view, const OnnxTensor*> initializers_;
  std::unordered_map<std::string_view, std::vector<const OnnxNode*>> consumers_;
  std::vector<const OnnxNode*> none_;
};

}  // namespace tenon
