#include "text_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <map>
#include <regex>
#include <sstream>

namespace tenon {
namespace {

using Names = std::map<std::string, ProgramValueId>;

std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> parts;
  std::string part;
  std::istringstream stream(text);
  while (std::getline(stream, part, ',')) {
    const size_t first = part.find_first_not_of(' ');
    const size_t last = part.find_last_not_of(' ');
    if (first != std::string::npos)
      parts.push_back(part.substr(first, last - first + 1));
  }
  return parts;
}

ElementType TypeOf(const std::string& name) {
  if (name == "i64")
    return ElementType::kI64;
  return name == "bool" ? ElementType::kBool : ElementType::kF32;
}

void ParseInput(const std::smatch& match, Program& program, Names& names) {
  const ProgramValueId id = program.AddValue(match[1], TypeOf(match[2]));
  program.value(id).shape.emplace();
  for (const std::string& dim : SplitList(match[3])) {
    const bool number = dim.find_first_not_of("0123456789") == std::string::npos;
    program.value(id).shape->push_back(
        {number ? std::stoll(dim) : -1, number || dim == "*" ? "" : dim});
  }
  program.inputs.push_back(id);
  names[match[1]] = id;
}

void ParseConstant(const std::smatch& match, Program& program, Names& names) {
  std::vector<int64_t> shape;
  int64_t count = 1;
  for (const std::string& dim : SplitList(match[3])) {
    shape.push_back(std::stoll(dim));
    count *= shape.back();
  }
  std::istringstream values(match[4]);
  std::vector<std::byte> bytes;
  for (int64_t i = 0; i < count; ++i) {
    double value = 0.0;
    // Made-up values are different, small and not symmetric.
    if (!(values >> value))
      value = 0.25 + 0.125 * static_cast<double>((i * 7) % 11) - 0.5 * static_cast<double>(i % 2);
    const auto number = static_cast<float>(value);
    const auto integer = static_cast<int64_t>(value);
    const bool floats = TypeOf(match[2]) == ElementType::kF32;
    const void* from = floats ? static_cast<const void*>(&number) : &integer;
    const auto* raw = static_cast<const std::byte*>(from);
    bytes.insert(bytes.end(), raw, raw + (floats ? sizeof(number) : sizeof(integer)));
  }
  names[match[1]] = program.AddConstant(match[1], TypeOf(match[2]), shape, bytes);
}

ProgramAttribute ParseAttribute(const std::string& text) {
  if (text.front() == '"')
    return text.substr(1, text.size() - 2);
  if (text.front() == '[') {
    std::vector<int64_t> list;
    for (const std::string& part : SplitList(text.substr(1, text.size() - 2)))
      list.push_back(std::stoll(part));
    return list;
  }
  if (text.find('.') != std::string::npos)
    return std::stof(text);
  return static_cast<int64_t>(std::stoll(text));
}

Status ParseNode(const std::smatch& match, Program& program, Names& names) {
  ProgramNode node;
  const std::string op = match[2];
  const size_t dot = op.rfind('.');
  node.domain = dot == std::string::npos ? "" : op.substr(0, dot);
  node.op = dot == std::string::npos ? op : op.substr(dot + 1);
  node.version = node.domain.empty() ? 17 : 1;
  for (const std::string& name : SplitList(match[3])) {
    if (name == "_") {
      node.inputs.emplace_back();
      continue;
    }
    if (!names.contains(name.substr(1)))
      return InvalidArgument("no such value", name);
    node.inputs.push_back(names[name.substr(1)]);
  }
  const std::string attributes = match[4];
  static const std::regex pattern(R"((\w+)=("[^"]*"|\[[^\]]*\]|[^ ]+))");
  for (std::sregex_iterator at(attributes.begin(), attributes.end(), pattern), end; at != end; ++at)
    node.attributes.emplace_back((*at)[1], ParseAttribute((*at)[2]));
  for (const std::string& name : SplitList(match[1])) {
    node.outputs.push_back(program.AddValue(name.substr(1)));
    names[name.substr(1)] = node.outputs.back();
  }
  node.name = program.value(node.outputs[0]).name;
  program.nodes.push_back(std::move(node));
  return {};
}

}  // namespace

Result<Program> ParseProgram(const std::string& text) {
  static const std::regex input(R"(\s*input %(\S+) (\w+) \[(.*)\]\s*)");
  static const std::regex constant(R"(\s*const %(\S+) (\w+) \[([^\]]*)\]\s*=?\s*(.*))");
  static const std::regex output(R"(\s*output %(\S+)\s*)");
  static const std::regex node(R"(\s*(%[^=]*) = ([\w.]+)\(([^)]*)\)(.*))");
  Program program;
  Names names;
  std::istringstream stream(text);
  std::string line;
  std::smatch match;
  while (std::getline(stream, line)) {
    if (line.find_first_not_of(' ') == std::string::npos)
      continue;
    if (std::regex_match(line, match, input))
      ParseInput(match, program, names);
    else if (std::regex_match(line, match, constant))
      ParseConstant(match, program, names);
    else if (std::regex_match(line, match, output))
      program.outputs.push_back(names[match[1]]);
    else if (std::regex_match(line, match, node))
      TENON_RETURN_IF_ERROR(ParseNode(match, program, names));
    else
      return InvalidArgument("no line of a program", line);
  }
  TENON_RETURN_IF_ERROR(VerifyProgram(program));
  return program;
}

std::string NodesText(const Program& program) {
  std::map<ProgramValueId, std::string> names;
  for (uint32_t i = 0; i < program.value_count(); ++i) {
    if (program.value(ProgramValueId(i)).constant)
      names[ProgramValueId(i)] = program.value(ProgramValueId(i)).name;
  }
  for (const ProgramValueId id : program.inputs)
    names[id] = program.value(id).name;
  int next = 1;
  std::string text;
  for (const ProgramNode& node : program.nodes) {
    std::vector<std::string> inputs;
    std::vector<std::string> outputs;
    for (const ProgramValueId id : node.inputs)
      inputs.push_back(id.valid() ? names[id] : "_");
    for (const ProgramValueId id : node.outputs)
      outputs.push_back(names[id] = std::to_string(next++));
    text += fmt::format("{} = {}{}{}({})\n", fmt::join(outputs, ", "), node.domain,
                        node.domain.empty() ? "" : ".", node.op, fmt::join(inputs, ", "));
  }
  for (const ProgramValueId id : program.outputs)
    text += fmt::format("output {}\n", names[id]);
  return text;
}

}  // namespace tenon
