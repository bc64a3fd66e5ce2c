// The messages of an ONNX file (onnx.proto of the ONNX specification), those parts that are read.
//
// Names are copied; the bytes of tensors are not: they point into the file, which must outlive
// these. All of it is untrusted: ParseOnnx checks the wire format only. Threading: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tenon {

// TensorProto. Values are in one of raw bytes, the typed lists, or another file.
struct OnnxTensor {
  std::string name;
  int64_t data_type = 0;  // TensorProto.DataType
  std::vector<int64_t> dims;
  std::optional<std::span<const std::byte>>
      raw;  // little-endian; sub-byte types two or four a byte
  std::vector<float> floats;
  std::vector<int64_t> int32s;  // also of the narrow types
  std::vector<int64_t> int64s;
  std::vector<double> doubles;
  std::vector<int64_t> uint64s;  // bits
  std::vector<std::string> strings;
  bool external = false;                                           // data_location
  std::vector<std::pair<std::string, std::string>> external_data;  // location, offset, length, ...
};

// A dimension of a declared shape: a number, a name, or neither.
struct OnnxDimension {
  std::optional<int64_t> value;
  std::string name;
};

// ValueInfoProto of a tensor. `other_type`: a sequence, map, optional or sparse tensor.
struct OnnxValueInfo {
  std::string name;
  int64_t element_type = 0;
  bool has_shape = false;
  std::vector<OnnxDimension> shape;
  bool other_type = false;
};

struct OnnxGraph;

// AttributeProto; `type` says which member counts.
struct OnnxAttribute {
  std::string name;
  int64_t type = 0;  // AttributeProto.AttributeType; 0 in files older than IR version 2
  float f = 0.0F;
  int64_t i = 0;
  std::string s;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  std::unique_ptr<OnnxTensor> tensor;
  std::unique_ptr<OnnxGraph> graph;
  std::string reference;  // ref_attr_name, in functions only
};

struct OnnxNode {
  std::string domain;  // "" and "ai.onnx" are the same; read as ""
  std::string op;
  std::string name;
  std::string scope;                // the torch module that made it, "model.layers.0.mlp.up_proj"
  std::vector<std::string> inputs;  // "": left out
  std::vector<std::string> outputs;
  std::vector<OnnxAttribute> attributes;
};

struct OnnxGraph {
  std::string name;
  std::vector<OnnxNode> nodes;
  std::vector<OnnxTensor> initializers;
  std::vector<OnnxValueInfo> inputs;
  std::vector<OnnxValueInfo> outputs;
  std::vector<OnnxValueInfo> values;
  bool has_sparse_initializers = false;
};

struct OnnxModel {
  int64_t ir_version = 0;
  std::string producer;
  std::vector<std::pair<std::string, int64_t>> opsets;  // domain, version
  std::vector<std::pair<std::string, std::string>> metadata;
  OnnxGraph graph;
  size_t function_count = 0;

  // The version of a domain; 0 when the model does not import it.
  int64_t Opset(std::string_view domain) const;
};

// Parses a ModelProto. Errors name the file and the offset. Graphs may nest 16 deep.
Result<OnnxModel> ParseOnnx(std::span<const std::byte> bytes, const std::string& file);

}  // namespace tenon
