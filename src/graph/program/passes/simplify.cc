// dead_code, remove_identities, common_subexpressions, remove_transposes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unordered_map>

#include "graph/program/passes/patterns.h"
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
  if (node.Is("Reshape") && node.Input(0).valid() &&
      SameShape(program, node.inputs[0], node.outputs[0]))
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

// Constants of this many bytes are compared by what they hold: exporters write scalars anew for
// each reader.
constexpr size_t kSmallConstant = 64;

std::string InputKey(const Program& program, ProgramValueId id) {
  const Constant* constant = program.ConstantOf(id);
  if (constant == nullptr || constant->bytes.size() > kSmallConstant)
    return fmt::format("{},", id.valid() ? static_cast<int64_t>(id.index()) : -1);
  std::string key = fmt::format("{}{}:", static_cast<int>(constant->type), constant->shape);
  for (const std::byte byte : constant->bytes)
    key += fmt::format("{:02x}", std::to_integer<int>(byte));
  return key + ",";
}

std::string Key(const Program& program, const ProgramNode& node) {
  std::string key = fmt::format("{}.{}.{}(", node.domain, node.op, node.version);
  for (const ProgramValueId id : node.inputs)
    key += InputKey(program, id);
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

// x, where the node is the last of Reshape([-1, c, d]), Transpose([0, 2, 1]), Reshape([a, b, d, c])
// of x [a, b, c, d]: torch's exporter turns matrices of a batch so. Invalid otherwise.
ProgramValueId TurnedInBatch(ProgramIndex& index, const ProgramNode& node) {
  const Program& program = index.program();
  ProgramNode* turn = node.Is("Reshape") ? index.ProducerOf(node.Input(0), "Transpose") : nullptr;
  const auto* perm = turn == nullptr ? nullptr : turn->Integers("perm");
  if (perm == nullptr || *perm != std::vector<int64_t>{0, 2, 1})
    return {};
  ProgramNode* join = index.ProducerOf(turn->Input(0), "Reshape");
  if (join == nullptr || KnownRank(program, join->Input(0)) != 4 ||
      KnownRank(program, node.outputs[0]) != 4 || KnownRank(program, join->outputs[0]) != 3)
    return {};
  const auto& x = *program.value(join->inputs[0]).shape;
  const auto& joined = *program.value(join->outputs[0]).shape;
  const auto& out = *program.value(node.outputs[0]).shape;
  const bool turned = SameDims(x[0], out[0]) && SameDims(x[1], out[1]) && SameDims(x[2], out[3]) &&
                      SameDims(x[3], out[2]) && SameDims(x[2], joined[1]) &&
                      SameDims(x[3], joined[2]);
  return turned ? join->inputs[0] : ProgramValueId();
}

void ReplaceByTranspose(ProgramIndex& index, ProgramNode& node, ProgramValueId x,
                        std::vector<int64_t> perm) {
  ProgramNode made;
  made.op = "Transpose";
  made.name = node.name;
  made.version = node.version;
  made.inputs = {x};
  made.outputs = node.outputs;
  made.attributes.emplace_back("perm", std::move(perm));
  index.Replace(node, std::move(made));
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
    const std::string key = IsRandom(node) ? std::string() : Key(program, node);
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
    if (const ProgramValueId x = TurnedInBatch(index, node); x.valid()) {
      ReplaceByTranspose(index, node, x, {0, 1, 3, 2});
      continue;
    }
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
    ReplaceByTranspose(index, node, before->inputs[0], std::move(both));
  }
  index.Finish();
  return {};
}

}  // namespace tenon
