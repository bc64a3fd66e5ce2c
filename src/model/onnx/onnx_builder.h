// OnnxBuilder: an ONNX model under construction, to be written with its weights in a file beside
// it.
//
// Writes protobuf's wire format itself (wire_reader.h reads it). Names of values are made here
// where none is asked for. Threading: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tensor/element_type.h"

namespace tenon {

using OnnxAttributeValue = std::variant<int64_t, float, std::string, std::vector<int64_t>>;
using OnnxAttributes = std::vector<std::pair<std::string, OnnxAttributeValue>>;

// Dimensions of a declared value: numbers, or names.
using OnnxShape = std::vector<std::variant<int64_t, std::string>>;

class OnnxBuilder {
 public:
  // The name of the node's only output: `output`, or a new one.
  std::string Node(std::string_view op, const std::vector<std::string>& inputs,
                   const OnnxAttributes& attributes = {}, std::string output = {});
  // The same with `count` outputs.
  std::vector<std::string> NodeOf(std::string_view op, const std::vector<std::string>& inputs,
                                  const OnnxAttributes& attributes, size_t count);

  // Constants in the model itself; equal ones are one.
  std::string Integers(const std::vector<int64_t>& values);
  std::string Integer(int64_t value);
  std::string Number(float value);
  std::string Numbers(const std::vector<float>& values);
  // A tensor whose bytes are in the file beside the model.
  void External(const std::string& name, ElementType type, const std::vector<int64_t>& shape,
                uint64_t offset, uint64_t bytes);

  void Input(const std::string& name, ElementType type, const OnnxShape& shape);
  void Output(const std::string& name, ElementType type, const OnnxShape& shape);

  // The ModelProto. `data_file` is where external tensors are.
  std::string Serialize(int64_t opset, std::string_view data_file) const;

 private:
  struct ExternalTensor {
    std::string name;
    ElementType type;
    std::vector<int64_t> shape;
    uint64_t offset;
    uint64_t bytes;
  };
  std::string Constant(ElementType type, const std::vector<int64_t>& shape, std::string bytes);

  std::vector<std::string> nodes_;         // serialised NodeProto
  std::vector<std::string> initializers_;  // serialised TensorProto
  std::vector<ExternalTensor> external_;
  std::vector<std::string> inputs_;  // serialised ValueInfoProto
  std::vector<std::string> outputs_;
  std::map<std::string, std::string> constants_;  // type, shape and bytes to name
  int next_ = 0;
};

}  // namespace tenon
