#include "graph/program/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "quant/half.h"

namespace tenon {
namespace {

template <class T>
T LoadAs(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

// Element `i`; false for other types.
bool IntegerAt(const Constant& c, size_t i, int64_t& out) {
  const std::byte* at = c.bytes.data() + i * static_cast<size_t>(ElementBytes(c.type));
  switch (c.type) {
    case ElementType::kI64:
      out = LoadAs<int64_t>(at);
      return true;
    case ElementType::kI32:
      out = LoadAs<int32_t>(at);
      return true;
    case ElementType::kU8:
    case ElementType::kBool:
      out = LoadAs<uint8_t>(at);
      return true;
    case ElementType::kI8:
      out = LoadAs<int8_t>(at);
      return true;
    default:
      return false;
  }
}

bool NumberAt(const Constant& c, size_t i, double& out) {
  const std::byte* at = c.bytes.data() + i * static_cast<size_t>(ElementBytes(c.type));
  int64_t integer = 0;
  switch (c.type) {
    case ElementType::kF32:
      out = double{LoadAs<float>(at)};
      return true;
    case ElementType::kF64:
      out = LoadAs<double>(at);
      return true;
    case ElementType::kF16:
      out = double{F16ToF32(LoadAs<uint16_t>(at))};
      return true;
    default:
      out = IntegerAt(c, i, integer) ? static_cast<double>(integer) : 0.0;
      return IntegerAt(c, i, integer);
  }
}

template <class T, class At>
std::optional<std::vector<T>> Elements(const Constant& constant, int64_t most, At at) {
  const int64_t size = ElementBytes(constant.type);
  if (size == 0 || static_cast<int64_t>(constant.bytes.size()) / size > most)
    return std::nullopt;
  std::vector<T> out(constant.bytes.size() / static_cast<size_t>(size));
  for (size_t i = 0; i < out.size(); ++i) {
    if (!at(constant, i, out[i]))
      return std::nullopt;
  }
  return out;
}

}  // namespace

const ProgramAttribute* ProgramNode::Find(std::string_view attribute) const {
  for (const auto& [key, value] : attributes) {
    if (key == attribute)
      return &value;
  }
  return nullptr;
}

int64_t ProgramNode::Integer(std::string_view attribute, int64_t otherwise) const {
  const ProgramAttribute* found = Find(attribute);
  const int64_t* value = found == nullptr ? nullptr : std::get_if<int64_t>(found);
  return value == nullptr ? otherwise : *value;
}

float ProgramNode::Float(std::string_view attribute, float otherwise) const {
  const ProgramAttribute* found = Find(attribute);
  const float* value = found == nullptr ? nullptr : std::get_if<float>(found);
  return value == nullptr ? otherwise : *value;
}

std::string_view ProgramNode::Text(std::string_view attribute, std::string_view otherwise) const {
  const ProgramAttribute* found = Find(attribute);
  const std::string* value = found == nullptr ? nullptr : std::get_if<std::string>(found);
  return value == nullptr ? otherwise : std::string_view(*value);
}

const std::vector<int64_t>* ProgramNode::Integers(std::string_view attribute) const {
  const ProgramAttribute* found = Find(attribute);
  return found == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(found);
}

const std::vector<float>* ProgramNode::Floats(std::string_view attribute) const {
  const ProgramAttribute* found = Find(attribute);
  return found == nullptr ? nullptr : std::get_if<std::vector<float>>(found);
}

ProgramValueId Program::AddValue(std::string name, ElementType type) {
  ProgramValue& value = values_.emplace_back();
  value.name = std::move(name);
  value.type = type;
  return ProgramValueId(static_cast<uint32_t>(values_.size() - 1));
}

ProgramValueId Program::AddConstant(std::string name, ElementType type, std::vector<int64_t> shape,
                                    std::span<const std::byte> bytes) {
  owned.emplace_back(bytes.begin(), bytes.end());
  const ProgramValueId id = AddValue(std::move(name), type);
  value(id).constant = Constant{type, std::move(shape), owned.back()};
  return id;
}

ProgramValueId Program::AddIntegers(std::string name, const std::vector<int64_t>& integers) {
  return AddConstant(std::move(name), ElementType::kI64, {static_cast<int64_t>(integers.size())},
                     std::as_bytes(std::span(integers)));
}

ProgramValueId Program::Append(std::string_view domain, std::string_view op,
                               std::vector<ProgramValueId> node_inputs, int64_t version) {
  const ProgramValueId out = AddValue(fmt::format("t{}", values_.size()));
  ProgramNode& node = nodes.emplace_back();
  node.domain = domain;
  node.op = op;
  node.version = version;
  node.inputs = std::move(node_inputs);
  node.outputs = {out};
  return out;
}

const Constant* Program::ConstantOf(ProgramValueId id) const {
  if (!id.valid() || !values_[id.index()].constant)
    return nullptr;
  return &*values_[id.index()].constant;
}

std::optional<std::vector<double>> ConstantNumbers(const Constant& constant, int64_t most) {
  return Elements<double>(constant, most, NumberAt);
}

std::optional<std::vector<int64_t>> ConstantIntegers(const Constant& constant, int64_t most) {
  return Elements<int64_t>(constant, most, IntegerAt);
}

}  // namespace tenon
