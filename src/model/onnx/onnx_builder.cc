#include "model/onnx/onnx_builder.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace tenon {
namespace {

// Field numbers of onnx.proto; those of each message stand where it is written.
constexpr int64_t kIrVersion = 8;  // of ONNX 1.12, which has operator set 17
constexpr unsigned kVarint = 0;
constexpr unsigned kBytes = 2;
constexpr unsigned kFixed32 = 5;

void PutVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out.push_back(static_cast<char>(0x80 | (value & 0x7F)));
  out.push_back(static_cast<char>(value));
}

void PutTag(std::string& out, unsigned field, unsigned type) {
  PutVarint(out, field << 3 | type);
}

void PutInteger(std::string& out, unsigned field, int64_t value) {
  PutTag(out, field, kVarint);
  PutVarint(out, static_cast<uint64_t>(value));
}

void PutText(std::string& out, unsigned field, std::string_view text) {
  PutTag(out, field, kBytes);
  PutVarint(out, text.size());
  out.append(text);
}

void PutFloat(std::string& out, unsigned field, float value) {
  PutTag(out, field, kFixed32);
  const auto bits = std::bit_cast<uint32_t>(value);
  char bytes[4];
  std::memcpy(bytes, &bits, sizeof(bytes));
  out.append(bytes, sizeof(bytes));
}

// AttributeProto: name 1, f 2, i 3, s 4, ints 8, type 20 (FLOAT 1, INT 2, STRING 3, INTS 7).
std::string AttributeBytes(const std::string& name, const OnnxAttributeValue& value) {
  std::string out;
  PutText(out, 1, name);
  if (const auto* f = std::get_if<float>(&value)) {
    PutFloat(out, 2, *f);
    PutInteger(out, 20, 1);
  } else if (const auto* i = std::get_if<int64_t>(&value)) {
    PutInteger(out, 3, *i);
    PutInteger(out, 20, 2);
  } else if (const auto* s = std::get_if<std::string>(&value)) {
    PutText(out, 4, *s);
    PutInteger(out, 20, 3);
  } else {
    for (const int64_t entry : std::get<std::vector<int64_t>>(value))
      PutInteger(out, 8, entry);
    PutInteger(out, 20, 7);
  }
  return out;
}

// ValueInfoProto: name 1, type 2; TypeProto: tensor_type 1; its elem_type 1, shape 2; dim 1 with
// dim_value 1 or dim_param 2.
std::string ValueInfoBytes(const std::string& name, ElementType type, const OnnxShape& shape) {
  std::string dims;
  for (const auto& dim : shape) {
    std::string one;
    if (const auto* number = std::get_if<int64_t>(&dim))
      PutInteger(one, 1, *number);
    else
      PutText(one, 2, std::get<std::string>(dim));
    PutText(dims, 1, one);
  }
  std::string tensor;
  PutInteger(tensor, 1, static_cast<int64_t>(type));
  PutText(tensor, 2, dims);
  std::string whole;
  PutText(whole, 1, tensor);
  std::string out;
  PutText(out, 1, name);
  PutText(out, 2, whole);
  return out;
}

// TensorProto: dims 1, data_type 2, name 8.
std::string TensorHead(const std::string& name, ElementType type,
                       const std::vector<int64_t>& shape) {
  std::string out;
  for (const int64_t extent : shape)
    PutInteger(out, 1, extent);
  PutInteger(out, 2, static_cast<int64_t>(type));
  PutText(out, 8, name);
  return out;
}

template <class T>
std::string BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace

std::string OnnxBuilder::Node(std::string_view op, const std::vector<std::string>& inputs,
                              const OnnxAttributes& attributes, std::string output) {
  if (output.empty())
    return NodeOf(op, inputs, attributes, 1)[0];
  NodeOf(op, inputs, attributes, 1);
  // The made name is replaced: the last thing that was written.
  std::string& node = nodes_.back();
  const std::string made = fmt::format("v{}", next_ - 1);
  std::string old_field;
  PutText(old_field, 2, made);
  std::string new_field;
  PutText(new_field, 2, output);
  node.replace(node.find(old_field), old_field.size(), new_field);
  return output;
}

std::vector<std::string> OnnxBuilder::NodeOf(std::string_view op,
                                             const std::vector<std::string>& inputs,
                                             const OnnxAttributes& attributes, size_t count) {
  // NodeProto: input 1, output 2, name 3, op_type 4, attribute 5.
  std::string out;
  std::vector<std::string> outputs;
  for (size_t i = 0; i < count; ++i) {
    outputs.push_back(fmt::format("v{}", next_++));
    PutText(out, 2, outputs.back());
  }
  for (const std::string& input : inputs)
    PutText(out, 1, input);
  PutText(out, 3, fmt::format("{}_{}", op, nodes_.size()));
  PutText(out, 4, op);
  for (const auto& [name, value] : attributes)
    PutText(out, 5, AttributeBytes(name, value));
  nodes_.push_back(std::move(out));
  return outputs;
}

std::string OnnxBuilder::Constant(ElementType type, const std::vector<int64_t>& shape,
                                  std::string bytes) {
  std::string key = fmt::format("{}:{}:", static_cast<int>(type), shape.size());
  key += bytes;
  const auto [found, is_new] = constants_.emplace(key, fmt::format("c{}", constants_.size()));
  if (is_new) {
    std::string tensor = TensorHead(found->second, type, shape);
    PutText(tensor, 9, bytes);  // raw_data
    initializers_.push_back(std::move(tensor));
  }
  return found->second;
}

std::string OnnxBuilder::Integers(const std::vector<int64_t>& values) {
  return Constant(ElementType::kI64, {static_cast<int64_t>(values.size())}, BytesOf(values));
}

std::string OnnxBuilder::Integer(int64_t value) {
  return Constant(ElementType::kI64, {}, BytesOf(std::vector<int64_t>{value}));
}

std::string OnnxBuilder::Number(float value) {
  return Constant(ElementType::kF32, {}, BytesOf(std::vector<float>{value}));
}

std::string OnnxBuilder::Numbers(const std::vector<float>& values) {
  return Constant(ElementType::kF32, {static_cast<int64_t>(values.size())}, BytesOf(values));
}

void OnnxBuilder::External(const std::string& name, ElementType type,
                           const std::vector<int64_t>& shape, uint64_t offset, uint64_t bytes) {
  external_.push_back({name, type, shape, offset, bytes});
}

void OnnxBuilder::Input(const std::string& name, ElementType type, const OnnxShape& shape) {
  inputs_.push_back(ValueInfoBytes(name, type, shape));
}

void OnnxBuilder::Output(const std::string& name, ElementType type, const OnnxShape& shape) {
  outputs_.push_back(ValueInfoBytes(name, type, shape));
}

std::string OnnxBuilder::Serialize(int64_t opset, std::string_view data_file) const {
  // GraphProto: node 1, name 2, initializer 5, input 11, output 12.
  std::string graph;
  for (const std::string& node : nodes_)
    PutText(graph, 1, node);
  PutText(graph, 2, "decoder");
  for (const std::string& tensor : initializers_)
    PutText(graph, 5, tensor);
  for (const ExternalTensor& tensor : external_) {
    // external_data 13 (StringStringEntryProto: key 1, value 2), data_location 14 (EXTERNAL 1).
    std::string bytes = TensorHead(tensor.name, tensor.type, tensor.shape);
    for (const auto& [key, value] : {std::pair<std::string, std::string>{"location", data_file},
                                     {"offset", std::to_string(tensor.offset)},
                                     {"length", std::to_string(tensor.bytes)}}) {
      std::string entry;
      PutText(entry, 1, key);
      PutText(entry, 2, value);
      PutText(bytes, 13, entry);
    }
    PutInteger(bytes, 14, 1);
    PutText(graph, 5, bytes);
  }
  for (const std::string& input : inputs_)
    PutText(graph, 11, input);
  for (const std::string& output : outputs_)
    PutText(graph, 12, output);
  // ModelProto: ir_version 1, producer_name 2, graph 7, opset_import 8 (version 2).
  std::string model;
  PutInteger(model, 1, kIrVersion);
  PutText(model, 2, "tenon");
  PutText(model, 7, graph);
  std::string set;
  PutText(set, 1, "");
  PutInteger(set, 2, opset);
  PutText(model, 8, set);
  return model;
}

}  // namespace tenon
