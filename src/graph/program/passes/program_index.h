// ProgramIndex: who makes and who reads each value, and the edits that passes share.
//
// A pass marks nodes as removed and appends replacements; Finish drops what was removed and puts
// the rest in order again. Holds a reference to the program. Threading: one thread.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/program/program.h"

namespace tenon {

class ProgramIndex {
 public:
  explicit ProgramIndex(Program& program);

  Program& program() { return program_; }
  // Null for inputs, constants and invalid ids.
  ProgramNode* Producer(ProgramValueId id);
  // The producer when it is ONNX's `op` and its first output is the value; else null.
  ProgramNode* ProducerOf(ProgramValueId id, std::string_view op);
  // Reads by nodes that are there, and as an output of the program.
  int Uses(ProgramValueId id) const { return uses_[id.index()]; }
  bool HasOneUse(ProgramValueId id) const { return Uses(id) == 1; }
  bool IsOutput(ProgramValueId id) const;
  // Nodes that read the value, in order, each once.
  std::vector<ProgramNode*> Users(ProgramValueId id);

  // Every reader of `from` reads `to`; as an output of the program too, where `to` takes over the
  // name. False, with nothing changed, when `from` is an output and `to` an input or constant.
  bool ReplaceUses(ProgramValueId from, ProgramValueId to);
  void Remove(ProgramNode& node);
  // Puts `node` in the place of `replaced`, whose outputs it makes.
  void Replace(ProgramNode& replaced, ProgramNode node);
  bool IsRemoved(const ProgramNode& node) const {
    return removed_[static_cast<size_t>(&node - program_.nodes.data())];
  }

  // The only element of a constant; none for others.
  std::optional<double> Scalar(ProgramValueId id) const;
  // The elements of a short integer constant.
  std::optional<std::vector<int64_t>> Integers(ProgramValueId id) const;

  // Drops removed nodes and those whose values nobody reads.
  void Finish();

 private:
  void Count(const ProgramNode& node, int step);

  Program& program_;
  std::vector<int64_t> producer_;  // by value; -1: none
  std::vector<int> uses_;
  std::vector<bool> removed_;  // by node
};

// A pass that looks at every node of one of ONNX's operators, in order, and changes what it finds.
void RewriteEach(Program& program, std::string_view op,
                 void (*rewrite)(ProgramIndex& index, ProgramNode& node));

}  // namespace tenon
