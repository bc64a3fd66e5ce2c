// fold_constants: nodes whose inputs are all constants are computed once, by the engine's kernels.
#include <algorithm>

#include "graph/program/passes/program_index.h"
#include "graph/program/passes/program_pass.h"

namespace tenon {
namespace {

// A table this large is computed from when it is needed rather than kept twice.
constexpr int64_t kMostBytes = int64_t{1} << 30;

bool CanFold(const Program& program, const ProgramNode& node) {
  if (node.op.starts_with("Random") || node.op == "Bernoulli" || node.op == "Multinomial")
    return false;
  for (const ProgramValueId id : node.inputs) {
    const Constant* constant = program.ConstantOf(id);
    if (id.valid() && constant == nullptr)
      return false;
    if (constant != nullptr && static_cast<int64_t>(constant->bytes.size()) > kMostBytes)
      return false;
  }
  // Tables that are unpacked would only grow.
  return node.op != "DequantizeLinear" && node.op != "MatMulNBits" && node.op != "Expand";
}

// The node alone, with its inputs as constants.
Program Part(const Program& program, const ProgramNode& node) {
  Program part;
  ProgramNode copy;
  copy.domain = node.domain;
  copy.op = node.op;
  copy.name = node.name;
  copy.version = node.version;
  for (const ProgramValueId id : node.inputs) {
    if (!id.valid()) {
      copy.inputs.emplace_back();
      continue;
    }
    const ProgramValueId input = part.AddValue(program.value(id).name, program.value(id).type);
    part.value(input).constant = program.value(id).constant;
    copy.inputs.push_back(input);
  }
  for (const auto& attribute : node.attributes) {  // name, value
    std::visit(
        [&](const auto& v) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(v)>, std::unique_ptr<Program>>)
            copy.attributes.emplace_back(attribute.first, ProgramAttribute(v));
        },
        attribute.second);
  }
  for (const ProgramValueId id : node.outputs) {
    copy.outputs.push_back(id.valid() ? part.AddValue(program.value(id).name) : ProgramValueId());
    if (id.valid())
      part.outputs.push_back(copy.outputs.back());
  }
  part.nodes.push_back(std::move(copy));
  return part;
}

}  // namespace

Status FoldConstants(Program& program, const ProgramPassContext& context) {
  if (!context.evaluate)
    return {};
  std::vector<bool> folded(program.nodes.size());
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const ProgramNode& node = program.nodes[i];
    if (!CanFold(program, node))
      continue;
    const auto values = context.evaluate(Part(program, node), program);
    // What can't be computed now fails when it runs, with a better message.
    if (!values.ok())
      continue;
    size_t next = 0;
    for (const ProgramValueId id : node.outputs) {
      if (!id.valid())
        continue;
      ProgramValue& made = program.value((*values)[next++]);
      program.value(id).type = made.type;
      program.value(id).constant = std::move(made.constant);
      made.constant.reset();
    }
    folded[i] = true;
  }
  size_t kept = 0;
  for (size_t i = 0; i < folded.size(); ++i) {
    if (folded[i])
      continue;
    if (kept != i)
      program.nodes[kept] = std::move(program.nodes[i]);
    ++kept;
  }
  program.nodes.resize(kept);
  return {};
}

}  // namespace tenon
