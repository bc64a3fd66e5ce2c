#include "graph/program/passes/program_index.h"

#include <algorithm>
#include <utility>

namespace tenon {

ProgramIndex::ProgramIndex(Program& program)
    : program_(program),
      producer_(program.value_count(), -1),
      uses_(program.value_count()),
      removed_(program.nodes.size()) {
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    for (const ProgramValueId id : program.nodes[i].outputs) {
      if (id.valid())
        producer_[id.index()] = static_cast<int64_t>(i);
    }
    Count(program.nodes[i], 1);
  }
  for (const ProgramValueId id : program.outputs)
    ++uses_[id.index()];
}

void ProgramIndex::Count(const ProgramNode& node, int step) {
  for (const ProgramValueId id : node.inputs) {
    if (!id.valid())
      continue;
    if (id.index() >= uses_.size()) {
      uses_.resize(program_.value_count());
      producer_.resize(program_.value_count(), -1);
    }
    uses_[id.index()] += step;
  }
}

ProgramNode* ProgramIndex::Producer(ProgramValueId id) {
  if (!id.valid() || id.index() >= producer_.size() || producer_[id.index()] < 0)
    return nullptr;
  return &program_.nodes[static_cast<size_t>(producer_[id.index()])];
}

ProgramNode* ProgramIndex::ProducerOf(ProgramValueId id, std::string_view op) {
  ProgramNode* node = Producer(id);
  return node != nullptr && node->Is(op) && node->outputs[0] == id ? node : nullptr;
}

bool ProgramIndex::IsOutput(ProgramValueId id) const {
  return std::find(program_.outputs.begin(), program_.outputs.end(), id) != program_.outputs.end();
}

std::vector<ProgramNode*> ProgramIndex::Users(ProgramValueId id) {
  std::vector<ProgramNode*> users;
  for (size_t i = 0; i < program_.nodes.size(); ++i) {
    ProgramNode& node = program_.nodes[i];
    if (!removed_[i] && std::find(node.inputs.begin(), node.inputs.end(), id) != node.inputs.end())
      users.push_back(&node);
  }
  return users;
}

bool ProgramIndex::ReplaceUses(ProgramValueId from, ProgramValueId to) {
  if (IsOutput(from)) {
    if (Producer(to) == nullptr || IsOutput(to))
      return false;
    std::replace(program_.outputs.begin(), program_.outputs.end(), from, to);
    std::swap(program_.value(from).name, program_.value(to).name);
    --uses_[from.index()];
    ++uses_[to.index()];
  }
  for (size_t i = 0; i < program_.nodes.size(); ++i) {
    if (removed_[i])
      continue;
    for (ProgramValueId& id : program_.nodes[i].inputs) {
      if (id != from)
        continue;
      id = to;
      --uses_[from.index()];
      ++uses_[to.index()];
    }
  }
  return true;
}

void ProgramIndex::Remove(ProgramNode& node) {
  const auto i = static_cast<size_t>(&node - program_.nodes.data());
  if (removed_[i])
    return;
  removed_[i] = true;
  Count(node, -1);
}

void ProgramIndex::Replace(ProgramNode& replaced, ProgramNode node) {
  const auto i = static_cast<int64_t>(&replaced - program_.nodes.data());
  Count(replaced, -1);
  for (const ProgramValueId id : node.outputs) {
    if (!id.valid())
      continue;
    if (id.index() >= producer_.size()) {
      uses_.resize(program_.value_count());
      producer_.resize(program_.value_count(), -1);
    }
    producer_[id.index()] = i;
  }
  replaced = std::move(node);
  Count(replaced, 1);
}

std::optional<double> ProgramIndex::Scalar(ProgramValueId id) const {
  const Constant* constant = program_.ConstantOf(id);
  if (constant == nullptr)
    return std::nullopt;
  const auto numbers = ConstantNumbers(*constant, 1);
  if (!numbers || numbers->size() != 1)
    return std::nullopt;
  return (*numbers)[0];
}

std::optional<std::vector<int64_t>> ProgramIndex::Integers(ProgramValueId id) const {
  constexpr int64_t kMostListed = 64;  // axes, sizes
  const Constant* constant = program_.ConstantOf(id);
  return constant == nullptr ? std::nullopt : ConstantIntegers(*constant, kMostListed);
}

void ProgramIndex::Finish() {
  // From the end: a node that only removed nodes read goes too.
  for (size_t i = program_.nodes.size(); i-- > 0;) {
    if (removed_[i])
      continue;
    ProgramNode& node = program_.nodes[i];
    const bool read = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ProgramValueId id) {
      return id.valid() && uses_[id.index()] > 0;
    });
    if (!read)
      Remove(node);
  }
  size_t kept = 0;
  for (size_t i = 0; i < program_.nodes.size(); ++i) {
    if (removed_[i])
      continue;
    if (kept != i)
      program_.nodes[kept] = std::move(program_.nodes[i]);
    ++kept;
  }
  program_.nodes.resize(kept);
  removed_.assign(kept, false);
}

void RewriteEach(Program& program, std::string_view op,
                 void (*rewrite)(ProgramIndex& index, ProgramNode& node)) {
  ProgramIndex index(program);
  for (ProgramNode& node : program.nodes) {
    if (!index.IsRemoved(node) && node.Is(op))
      rewrite(index, node);
  }
  index.Finish();
}

}  // namespace tenon
