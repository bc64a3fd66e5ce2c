// narrow_rows: where only some rows of a value are taken, at the end of a chain of operators that
// compute each row by itself, the rows are taken at the chain's beginning: a decoder whose last row
// of logits is wanted multiplies its head, its last feed-forward and its last queries with one row.
//
// Going back from a Gather or Slice by constants, a node is narrowed when everything that reads it
// is narrowed too, along the same rows. Values that enter from outside get a selection of their
// own.
#include <fmt/format.h>

#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "graph/program/passes/patterns.h"
#include "graph/program/passes/program_pass.h"
#include "graph/program/passes/row_axes.h"

namespace tenon {
namespace {

// Rows that a node takes of its first input.
struct Selection {
  size_t node = 0;
  int64_t axis = 0;
  bool drops_dimension = false;  // Gather by a number
};

std::optional<Selection> MatchSelection(ProgramIndex& index, size_t position) {
  const Program& program = index.program();
  const ProgramNode& node = program.nodes[position];
  const int64_t rank = KnownRank(program, node.Input(0));
  if (rank < 2 || index.Producer(node.inputs[0]) == nullptr)
    return std::nullopt;
  Selection made{position, node.Integer("axis", 0), false};
  if (node.Is("Gather")) {
    const auto rows = index.Integers(node.Input(1));
    if (!rows)
      return std::nullopt;
    made.drops_dimension = program.ConstantOf(node.inputs[1])->shape.empty();
    if (!made.drops_dimension && program.ConstantOf(node.inputs[1])->shape.size() != 1)
      return std::nullopt;
  } else {
    const auto axes = node.Is("Slice") ? index.Integers(node.Input(3)) : std::nullopt;
    const bool known = axes && axes->size() == 1 && index.Integers(node.Input(1)) &&
                       index.Integers(node.Input(2)) &&
                       (!node.Input(4).valid() || index.Integers(node.inputs[4]));
    if (!known)
      return std::nullopt;
    made.axis = (*axes)[0];
  }
  made.axis += made.axis < 0 ? rank : 0;
  const bool inside = made.axis >= 0 && made.axis < rank - 1;
  return inside && KnownExtent(program, node.inputs[0], made.axis) != 1 ? std::optional(made)
                                                                        : std::nullopt;
}

// The nodes that one selection narrows, with the dimension of the rows of each of their inputs.
class Narrowing {
 public:
  Narrowing(ProgramIndex& index, const Selection& selection)
      : index_(index), program_(index.program()), selection_(selection) {}

  // False when nothing worth it is found; the program is as it was.
  bool Find();
  void Apply();

 private:
  struct Wanted {
    int64_t axis = 0;
    int reads = 0;  // by narrowed nodes and the selection
  };

  bool Want(ProgramValueId id, int64_t axis);
  bool Narrow(size_t position);
  ProgramValueId Selected(ProgramValueId id, int64_t axis, std::vector<ProgramNode>& nodes);
  void SetRows(ProgramValueId id, int64_t axis);
  void RewriteNode(size_t position, std::vector<ProgramNode>& nodes);
  void RewriteSelection(std::vector<ProgramNode>& nodes);

  ProgramIndex& index_;
  Program& program_;
  Selection selection_;
  std::unordered_map<size_t, Wanted> wanted_;                  // by value
  std::unordered_map<size_t, std::vector<int64_t>> narrowed_;  // by node
  std::unordered_set<size_t> narrow_values_;
  std::unordered_map<size_t, ProgramValueId> selected_;  // by value from outside
  ProgramDim rows_;
};

// False when the value is read along another dimension already.
bool Narrowing::Want(ProgramValueId id, int64_t axis) {
  Wanted& wanted = wanted_.emplace(id.index(), Wanted{axis, 0}).first->second;
  if (wanted.axis != axis)
    return false;
  ++wanted.reads;
  return true;
}

bool Narrowing::Narrow(size_t position) {
  const ProgramNode& node = program_.nodes[position];
  if (node.outputs.size() != 1 || !node.outputs[0].valid())
    return false;
  const auto found = wanted_.find(node.outputs[0].index());
  if (found == wanted_.end() || found->second.reads != index_.Uses(node.outputs[0]))
    return false;
  auto axes = RowAxes(program_, node, found->second.axis);
  if (!axes)
    return false;
  for (size_t i = 0; i < axes->size(); ++i) {
    const auto other = (*axes)[i] == kWhole ? wanted_.end() : wanted_.find(node.inputs[i].index());
    if (other != wanted_.end() && other->second.axis != (*axes)[i])
      return false;
  }
  for (size_t i = 0; i < axes->size(); ++i) {
    if ((*axes)[i] != kWhole && !Want(node.inputs[i], (*axes)[i]))
      return false;
  }
  narrow_values_.insert(node.outputs[0].index());
  narrowed_.emplace(position, std::move(*axes));
  return true;
}

bool Narrowing::Find() {
  const ProgramNode& node = program_.nodes[selection_.node];
  bool worth = false;
  if (!Want(node.inputs[0], selection_.axis))
    return false;
  for (size_t i = selection_.node; i-- > 0;)
    worth = (Narrow(i) && IsProduct(program_.nodes[i])) || worth;
  return worth;
}

void Narrowing::SetRows(ProgramValueId id, int64_t axis) {
  if (auto& shape = program_.value(id).shape; shape)
    (*shape)[static_cast<size_t>(axis)] = rows_;
}

// The rows of a value that is not narrowed itself: a selection like the one at the end.
ProgramValueId Narrowing::Selected(ProgramValueId id, int64_t axis,
                                   std::vector<ProgramNode>& nodes) {
  ProgramValueId& made = selected_[id.index()];
  if (made.valid())
    return made;
  const ProgramNode& pattern = program_.nodes[selection_.node];
  ProgramNode node;
  node.op = pattern.op;
  node.version = pattern.version;
  node.name = fmt::format("{} of {}", pattern.name, program_.value(id).name);
  node.inputs = {id, pattern.inputs[1]};
  if (pattern.Is("Gather")) {
    node.attributes.emplace_back("axis", axis);
    if (selection_.drops_dimension)
      node.inputs[1] = program_.AddIntegers("row", *index_.Integers(pattern.inputs[1]));
  } else {
    node.inputs.insert(node.inputs.end(),
                       {pattern.inputs[2], program_.AddIntegers("rows_axis", {axis})});
    if (pattern.Input(4).valid())
      node.inputs.push_back(pattern.inputs[4]);
  }
  made = program_.AddValue(node.name, program_.value(id).type);
  program_.value(made).shape = program_.value(id).shape;
  SetRows(made, axis);
  node.outputs = {made};
  nodes.push_back(std::move(node));
  return made;
}

void Narrowing::RewriteNode(size_t position, std::vector<ProgramNode>& nodes) {
  ProgramNode& node = program_.nodes[position];
  const std::vector<int64_t>& axes = narrowed_.at(position);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != kWhole && !narrow_values_.contains(node.inputs[i].index()))
      node.inputs[i] = Selected(node.inputs[i], axes[i], nodes);
  }
  SetRows(node.outputs[0], wanted_.at(node.outputs[0].index()).axis);
  nodes.push_back(std::move(node));
}

// What was selected has these rows only now.
void Narrowing::RewriteSelection(std::vector<ProgramNode>& nodes) {
  ProgramNode& node = program_.nodes[selection_.node];
  ProgramNode passed;
  passed.name = node.name;
  passed.version = node.version;
  passed.inputs = {node.inputs[0]};
  passed.outputs = node.outputs;
  passed.op = selection_.drops_dimension ? "Squeeze" : "Identity";
  // Squeeze has its axes as an attribute up to operator set 12, as an input from 13 on.
  if (selection_.drops_dimension && node.version < 13)
    passed.attributes.emplace_back("axes", std::vector<int64_t>{selection_.axis});
  else if (selection_.drops_dimension)
    passed.inputs.push_back(program_.AddIntegers("row_axis", {selection_.axis}));
  nodes.push_back(std::move(passed));
}

void Narrowing::Apply() {
  const ProgramNode& selection = program_.nodes[selection_.node];
  const auto rows = index_.Integers(selection.inputs[1]);
  if (selection.Is("Gather"))
    rows_.value = static_cast<int64_t>(rows->size());
  else
    rows_.name = fmt::format("rows of {}", program_.value(selection.outputs[0]).name);
  std::vector<ProgramNode> nodes;
  for (size_t i = 0; i < program_.nodes.size(); ++i) {
    if (narrowed_.contains(i))
      RewriteNode(i, nodes);
    else if (i == selection_.node)
      RewriteSelection(nodes);
    else
      nodes.push_back(std::move(program_.nodes[i]));
  }
  program_.nodes = std::move(nodes);
}

}  // namespace

Status NarrowRows(Program& program, const ProgramPassContext& context) {
  auto index = std::make_unique<ProgramIndex>(program);
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const auto selection = MatchSelection(*index, i);
    if (!selection)
      continue;
    Narrowing narrowing(*index, *selection);
    if (!narrowing.Find())
      continue;
    const size_t before = program.nodes.size();
    narrowing.Apply();
    i += program.nodes.size() - before;
    index = std::make_unique<ProgramIndex>(program);  // of other nodes now
  }
  return RemoveIdentities(program, context);
}

}  // namespace tenon
