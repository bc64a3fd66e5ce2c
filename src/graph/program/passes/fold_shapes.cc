// fold_shapes: what is computed from shapes becomes constant where names of dimensions allow it, so
// that the nodes that computed it die.
#include <algorithm>
#include <limits>

#include "graph/program/passes/program_index.h"
#include "graph/program/passes/program_pass.h"
#include "graph/program/passes/symbolic_shapes.h"

namespace tenon {
namespace {

using Symbols = std::vector<Symbol>;

// Reshape's target as numbers: 0 where a dimension stays, -1 for one that is not known.
std::optional<std::vector<int64_t>> TargetNumbers(const Symbols& target,
                                                  const std::optional<Symbols>& from) {
  std::vector<int64_t> out;
  bool open = false;
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i].number) {
      open = open || *target[i].number == -1;
      out.push_back(*target[i].number);
      continue;
    }
    const bool stays = from && i < from->size() && (*from)[i] == target[i];
    if (!stays && open)
      return std::nullopt;
    open = open || !stays;
    out.push_back(stays ? 0 : -1);
  }
  // A second -1 may have been in the list itself.
  return std::count(out.begin(), out.end(), -1) > 1 ? std::nullopt : std::optional(out);
}

void FoldReshape(ProgramIndex& index, ProgramNode& node, const std::vector<SymbolicValue>& known) {
  const ProgramValueId list = node.Input(1);
  if (!list.valid() || index.program().ConstantOf(list) != nullptr || !known[list.index()].elements)
    return;
  // With allowzero a 0 is an extent, which the new list can't say.
  const auto& elements = *known[list.index()].elements;
  const bool empty = std::any_of(elements.begin(), elements.end(),
                                 [](const Symbol& element) { return element.number == 0; });
  if (node.Integer("allowzero", 0) != 0 && empty)
    return;
  const auto numbers =
      TargetNumbers(*known[list.index()].elements, known[node.inputs[0].index()].shape);
  if (!numbers)
    return;
  ProgramNode made;
  made.op = "Reshape";
  made.name = node.name;
  made.version = node.version;
  made.inputs = {node.inputs[0], index.program().AddIntegers(node.name + "_shape", *numbers)};
  made.outputs = node.outputs;
  index.Replace(node, std::move(made));
}

// All elements known: the value itself becomes a constant. Constants of other types than int64 and
// bool stay to be computed.
bool FoldElements(Program& program, const SymbolicValue& known, ProgramValueId id) {
  if (!known.elements || !known.shape || known.type != ElementType::kI64 ||
      program.value(id).constant)
    return false;
  std::vector<int64_t> numbers;
  for (const Symbol& element : *known.elements) {
    if (!element.number)
      return false;
    numbers.push_back(*element.number);
  }
  const auto bytes = std::as_bytes(std::span(numbers));
  program.owned.emplace_back(bytes.begin(), bytes.end());
  std::vector<int64_t> shape;
  if (!known.shape->empty())
    shape.push_back(static_cast<int64_t>(numbers.size()));
  program.value(id).constant = Constant{ElementType::kI64, std::move(shape), program.owned.back()};
  return true;
}

void Declare(Program& program, const std::vector<SymbolicValue>& known) {
  for (uint32_t i = 0; i < known.size(); ++i) {
    ProgramValue& value = program.value(ProgramValueId(i));
    if (value.type == ElementType::kUndefined)
      value.type = known[i].type;
    if (value.shape || !known[i].shape)
      continue;
    value.shape.emplace();
    for (const Symbol& dim : *known[i].shape)
      value.shape->push_back({dim.number.value_or(-1), dim.name});
  }
}

}  // namespace

Status FoldShapes(Program& program, const ProgramPassContext&) {
  const std::vector<SymbolicValue> known = InferSymbolic(program);
  ProgramIndex index(program);
  for (ProgramNode& node : program.nodes) {
    if (node.outputs.size() != 1 || !node.outputs[0].valid() || index.IsRemoved(node))
      continue;
    const ProgramValueId out = node.outputs[0];
    if (!index.IsOutput(out) && FoldElements(program, known[out.index()], out)) {
      index.Remove(node);
      continue;
    }
    if (node.Is("Reshape"))
      FoldReshape(index, node, known);
    const bool expands = node.Is("Expand") && known[out.index()].shape;
    if (expands && known[out.index()].shape == known[node.inputs[0].index()].shape &&
        index.ReplaceUses(out, node.inputs[0]))
      index.Remove(node);
  }
  Declare(program, known);
  index.Finish();
  return {};
}

}  // namespace tenon
