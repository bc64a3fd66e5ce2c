// dead_code, remove_identities, common_subexpressions, remove_transposes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unordered_map>

#include "graph/program/passes/program_index.h"
#include "graph/program/passes/program_pass.h"

namespace tenon {
namespace {

// The input that a node hands on unchanged, whatever it holds; invalid when it does not.
ProgramValueId PassedOn(const ProgramIndex& index, const Program& program,
                        const ProgramNode& node) {
  const bool one_output = node.outputs.size() == 1 || !node.Output(1).valid();
  if (node.Is("Identity") || (node.Is("Dropout") && node.inputs.size() == 1 && one_output))
    return node.inputs[0];
  if (node.Is("Concat") && node.inputs.size() == 1)
    return node.inputs[0];
  if (node.Is("Cast") && program.value(node.Input(0)).type != ElementType::kUndefined &&
      static_cast<int64_t>(program.value(node.Input(0)).type) == node.Integer("to", 0))
    return node.inputs[0];
  // A neutral scalar of rank 0 or 1 leaves shapes as they are, but for a scalar x.
  const bool neutral_op =
      node.Is("Mul") || node.Is("Add") || node.Is("Div") || node.Is("Sub") || node.Is("Pow");
  if (!neutral_op || node.inputs.size() != 2)
    return {};
  const auto scalar = index.Scalar(node.inputs[1]);
  const Constant* constant = program.ConstantOf(node.inputs[1]);
  const double neutral = node.Is("Add") || node.Is("Sub") ? 0.0 : 1.0;
  return scalar && *scalar == neutral && constant->shape.empty() ? node.inputs[0]
                                                                 : ProgramValueId();
}

std::string Key(const ProgramNode& node) {
  std::string key = fmt::format("{}.{}.{}(", node.domain, node.op, node.version);
  for (const ProgramValueId id : node.inputs)
    key += fmt::format("{},", id.valid() ? static_cast<int64_t>(id.index()) : -1);
  for (const auto& [name, value] : node.attributes) {
    key += name;
    if (const auto* i = std::get_if<int64_t>(&value))
      key += fmt::format("={};", *i);
    else if (const auto* f = std::get_if<float>(&value))
      key += fmt::format("={:a};", *f);
    else if (const auto* s = std::get_if<std::string>(&value))
      key += fmt::format("='{}';", *s);
    else if (const auto* is = std::get_if<std::vector<int64_t>>(&value))
      key += fmt::format("={};", *is);
    else
      return {};  // other kinds are not compared
  }
  return key + fmt::format("){}", node.outputs.size());
}

bool IsRandom(const ProgramNode& node) {
  return node.op.starts_with("Random") || node.op == "Bernoulli" || node.op == "Multinomial";
}

}  // namespace

Status DeadCode(Program& program, const ProgramPassContext&) {
  ProgramIndex(program).Finish();
  return {};
}

Status RemoveIdentities(Program& program, const ProgramPassContext&) {
  ProgramIndex index(program);
  for (ProgramNode& node : program.nodes) {
    const ProgramValueId passed = PassedOn(index, program, node);
    if (passed.valid() && index.ReplaceUses(node.outputs[0], passed))
      index.Remove(node);
  }
  index.Finish();
  return {};
}

Status MergeCommonNodes(Program& program, const ProgramPassContext&) {
  ProgramIndex index(program);
  std::unordered_map<std::string, ProgramNode*> seen;
  for (ProgramNode& node : program.nodes) {
    const std::string key = IsRandom(node) ? std::string() : Key(node);
    if (key.empty())
      continue;
    const auto [found, is_new] = seen.emplace(key, &node);
    if (is_new)
      continue;
    bool replaced = true;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ProgramValueId other = found->second->outputs[i];
      if (node.outputs[i].valid())
        replaced = other.valid() && index.ReplaceUses(node.outputs[i], other) && replaced;
    }
    if (replaced)
      index.Remove(node);
  }
  index.Finish();
  return {};
}

Status RemoveTransposes(Program& program, const ProgramPassContext&) {
  ProgramIndex index(program);
  for (ProgramNode& node : program.nodes) {
    ProgramNode* before =
        node.Is("Transpose") ? index.ProducerOf(node.Input(0), "Transpose") : nullptr;
    const auto* second = node.Integers("perm");
    const auto* first = before == nullptr ? nullptr : before->Integers("perm");
    if (first == nullptr || second == nullptr || first->size() != second->size())
      continue;
    std::vector<int64_t> both;
    bool identity = true;
    for (const int64_t d : *second) {
      if (d < 0 || d >= static_cast<int64_t>(first->size()))
        return {};
      both.push_back((*first)[static_cast<size_t>(d)]);
      identity = identity && both.back() + 1 == static_cast<int64_t>(both.size());
    }
    if (identity && index.ReplaceUses(node.outputs[0], before->inputs[0])) {
      index.Remove(node);
      continue;
    }
    ProgramNode joined;
    joined.op = "Transpose";
    joined.name = node.name;
    joined.version = node.version;
    joined.inputs = {before->inputs[0]};
    joined.outputs = node.outputs;
    joined.attributes.emplace_back("perm", std::move(both));
    index.Replace(node, std::move(joined));
  }
  index.Finish();
  return {};
}

}  // namespace tenon
