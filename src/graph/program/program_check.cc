// The verifier and the printer of programs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/program/program.h"

namespace tenon {
namespace {

Error Broken(const ProgramNode& node, std::string_view value, std::string_view what) {
  return Corrupt(fmt::format("the value '{}' {}", value, what),
                 fmt::format("node '{}' ({})", node.name, node.op));
}

std::string AttributeText(const ProgramAttribute& attribute) {
  struct Visitor {
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(float v) const { return fmt::format("{}", v); }
    std::string operator()(const std::string& v) const { return fmt::format("\"{}\"", v); }
    std::string operator()(const std::vector<int64_t>& v) const { return fmt::format("{}", v); }
    std::string operator()(const std::vector<float>& v) const { return fmt::format("{}", v); }
    std::string operator()(const std::vector<std::string>& v) const { return fmt::format("{}", v); }
    std::string operator()(const Constant& v) const {
      return fmt::format("{}{}", ElementTypeName(v.type), v.shape);
    }
    std::string operator()(const std::unique_ptr<Program>& v) const {
      return fmt::format("{{{} nodes}}", v->nodes.size());
    }
  };
  return std::visit(Visitor(), attribute);
}

std::string NodeText(const Program& program, const ProgramNode& node) {
  const auto name = [&](ProgramValueId id) {
    return id.valid() ? fmt::format("%{}", program.value(id).name) : std::string("_");
  };
  std::vector<std::string> outputs;
  std::vector<std::string> inputs;
  std::vector<std::string> attributes;
  for (const ProgramValueId id : node.outputs)
    outputs.push_back(name(id));
  for (const ProgramValueId id : node.inputs)
    inputs.push_back(name(id));
  for (const auto& [key, value] : node.attributes)
    attributes.push_back(fmt::format("{}={}", key, AttributeText(value)));
  const std::string list =
      attributes.empty() ? std::string() : fmt::format("[{}]", fmt::join(attributes, ", "));
  return fmt::format("{} = {}{}{}{}({})\n", fmt::join(outputs, ", "), node.domain,
                     node.domain.empty() ? "" : ".", node.op, list, fmt::join(inputs, ", "));
}

}  // namespace

Status VerifyProgram(const Program& program) {
  std::vector<bool> made(program.value_count());
  const auto in_range = [&](ProgramValueId id) {
    return !id.valid() || id.index() < program.value_count();
  };
  for (uint32_t i = 0; i < program.value_count(); ++i)
    made[i] = program.value(ProgramValueId(i)).constant.has_value();
  for (const ProgramValueId id : program.inputs) {
    if (!id.valid() || !in_range(id))
      return Corrupt("an input that is no value");
    made[id.index()] = true;
  }
  for (const ProgramNode& node : program.nodes) {
    for (const ProgramValueId id : node.inputs) {
      if (!in_range(id))
        return Broken(node, "?", "is out of range");
      if (id.valid() && !made[id.index()])
        return Broken(node, program.value(id).name, "is read before it is made");
    }
    for (const ProgramValueId id : node.outputs) {
      if (!in_range(id))
        return Broken(node, "?", "is out of range");
      if (id.valid() && made[id.index()])
        return Broken(node, program.value(id).name, "is made twice");
      if (id.valid())
        made[id.index()] = true;
    }
  }
  for (const ProgramValueId id : program.outputs) {
    if (!id.valid() || !in_range(id) || !made[id.index()])
      return Corrupt("an output of the graph that no node makes",
                     id.valid() && in_range(id) ? program.value(id).name : std::string());
  }
  return {};
}

std::string PrintProgram(const Program& program) {
  std::vector<std::string> names;
  for (const ProgramValueId id : program.inputs)
    names.push_back("%" + program.value(id).name);
  std::string text = fmt::format("inputs {}\n", fmt::join(names, ", "));
  for (uint32_t i = 0; i < program.value_count(); ++i) {
    const ProgramValue& value = program.value(ProgramValueId(i));
    if (value.constant)
      text += fmt::format("%{} = {}{}\n", value.name, ElementTypeName(value.constant->type),
                          value.constant->shape);
  }
  for (const ProgramNode& node : program.nodes)
    text += NodeText(program, node);
  names.clear();
  for (const ProgramValueId id : program.outputs)
    names.push_back("%" + program.value(id).name);
  return text + fmt::format("outputs {}\n", fmt::join(names, ", "));
}

}  // namespace tenon
