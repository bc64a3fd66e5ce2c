// Program: a general graph of tensor operators, as ONNX describes them: any rank, many element
// types, shapes that may be known only when it runs.
//
// This is the form of imported graphs that are no decoder known to the engine; those become a Graph
// (graph.h). Operators are named by domain, name and version, with attributes by name: what they
// mean stands with their kernels (engine/program). Nodes are in an order in which each value is
// made before it is read. Owns constants that were computed; others point into `files`. Threading:
// as a container.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "base/strong_id.h"
#include "tensor/element_type.h"

namespace tenon {

struct ProgramValueTag;
using ProgramValueId = StrongId<ProgramValueTag>;

// A tensor that is known before the program runs. Types below a byte have a byte an element.
struct Constant {
  ElementType type = ElementType::kUndefined;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

// A dimension: a number, or a name that stands for the same number wherever it stands, or neither.
struct ProgramDim {
  int64_t value = -1;
  std::string name;
  bool operator==(const ProgramDim&) const = default;
};

struct ProgramValue {
  std::string name;
  ElementType type = ElementType::kUndefined;    // kUndefined: not declared
  std::optional<std::vector<ProgramDim>> shape;  // none: not declared
  std::optional<Constant> constant;
};

class Program;

using ProgramAttribute =
    std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                 std::vector<std::string>, Constant, std::unique_ptr<Program>>;

struct ProgramNode {
  std::string domain;  // "" is ONNX's own, "tenon" holds fused operators
  std::string op;
  std::string name;
  int64_t version = 0;                  // the operator set's
  std::vector<ProgramValueId> inputs;   // invalid: left out
  std::vector<ProgramValueId> outputs;  // invalid: not wanted
  std::vector<std::pair<std::string, ProgramAttribute>> attributes;

  const ProgramAttribute* Find(std::string_view attribute) const;
  int64_t Integer(std::string_view attribute, int64_t otherwise) const;
  float Float(std::string_view attribute, float otherwise) const;
  std::string_view Text(std::string_view attribute, std::string_view otherwise) const;
  // Null when it is missing or has another type.
  const std::vector<int64_t>* Integers(std::string_view attribute) const;
  const std::vector<float>* Floats(std::string_view attribute) const;
  bool Is(std::string_view op_name) const { return domain.empty() && op == op_name; }
  ProgramValueId Input(size_t i) const { return i < inputs.size() ? inputs[i] : ProgramValueId(); }
  ProgramValueId Output(size_t i) const {
    return i < outputs.size() ? outputs[i] : ProgramValueId();
  }
};

class Program {
 public:
  std::vector<ProgramNode> nodes;
  std::vector<ProgramValueId> inputs;
  std::vector<ProgramValueId> outputs;
  std::vector<MappedFile> files;
  std::deque<std::vector<std::byte>> owned;

  ProgramValueId AddValue(std::string name, ElementType type = ElementType::kUndefined);
  // Copies the bytes.
  ProgramValueId AddConstant(std::string name, ElementType type, std::vector<int64_t> shape,
                             std::span<const std::byte> bytes);
  ProgramValueId AddIntegers(std::string name, const std::vector<int64_t>& values);
  // A node with one new output.
  ProgramValueId Append(std::string_view domain, std::string_view op,
                        std::vector<ProgramValueId> node_inputs, int64_t version);

  ProgramValue& value(ProgramValueId id) { return values_[id.index()]; }
  const ProgramValue& value(ProgramValueId id) const { return values_[id.index()]; }
  size_t value_count() const { return values_.size(); }
  // Null for a value that is not constant, and for an invalid id.
  const Constant* ConstantOf(ProgramValueId id) const;

 private:
  std::vector<ProgramValue> values_;
};

// The elements of a constant of type F32, F64 or F16, or of an integer type; none otherwise, and
// for more than `most`.
std::optional<std::vector<double>> ConstantNumbers(const Constant& constant, int64_t most = 65536);
std::optional<std::vector<int64_t>> ConstantIntegers(const Constant& constant,
                                                     int64_t most = 65536);

// Every id is in range, no value is made twice, and each is made before it is read. kCorrupt,
// naming the node and the value.
Status VerifyProgram(const Program& program);

// One line a node, for tests and people: "%y, %z = Op[attributes](%a, %b)".
std::string PrintProgram(const Program& program);

}  // namespace tenon
