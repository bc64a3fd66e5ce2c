// Automaton: a grammar as a nondeterministic pushdown automaton over bytes.
//
// Nodes are visited from top to bottom of a stack of frames: a kCall leaves a frame to come back
// to, a kEnter leaves one with the two counters of its loop, a kReturn takes the topmost one off.
// Nodes from which no text can be finished, or not within the stack's limit, are told by need():
// whoever runs the automaton never enters them, so that a text that was begun can always be ended.
//
// Owns its nodes. Threading: const after Compile; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/constrain/grammar.h"

namespace tenon {

class Automaton {
 public:
  enum class Kind : uint8_t {
    kBytes,   // one byte of set `a`, then node `next`
    kSplit,   // any of targets [a, b)
    kCall,    // rule entry `a`, then `next`
    kEnter,   // the loop at node `a` begins with counters min and max
    kLoop,    // body `a` again if max allows it, or `next` if min does
    kReturn,  // back to the frame below
  };
  struct Node {
    Kind kind = Kind::kReturn;
    bool is_string = false;  // kLoop, kBytes: Grammar::Node::is_string
    int32_t a = 0;
    int32_t b = 0;
    int32_t next = 0;
    int64_t min = 0;  // kEnter
    int64_t max = 0;  // kEnter; Grammar::kNoLimit
  };

  // Frames of the stack: nesting of arrays, objects and rules in the text.
  static constexpr int32_t kMaxDepth = 256;

  // Fails with kInvalidArgument when no text matches, and for a grammar beyond the limits: too many
  // nodes, or rules that call themselves without reading anything.
  static Result<Automaton> Compile(const Grammar& grammar, Grammar::Term root);

  int32_t start() const { return start_; }
  const Node& node(int32_t index) const { return nodes_[static_cast<size_t>(index)]; }
  std::span<const int32_t> targets(const Node& split) const {
    return std::span(targets_).subspan(static_cast<size_t>(split.a),
                                       static_cast<size_t>(split.b - split.a));
  }
  // Frames that finishing from this node takes at least, on top of what is there; kImpossible when
  // nothing can finish.
  int32_t need(int32_t index) const { return need_[static_cast<size_t>(index)]; }
  static constexpr int32_t kImpossible = 1 << 20;

  // Bytes that no set tells apart have the same class.
  size_t classes() const { return static_cast<size_t>(class_count_); }
  uint8_t class_of(uint8_t byte) const { return class_of_[byte]; }
  bool Contains(const Node& bytes, uint8_t byte) const {
    return sets_[static_cast<size_t>(bytes.a)].test(byte);
  }
  const ByteSet& set(const Node& bytes) const { return sets_[static_cast<size_t>(bytes.a)]; }
  // A byte of each class.
  uint8_t example(size_t byte_class) const { return examples_[byte_class]; }

 private:
  friend class AutomatonCompiler;
  Automaton() = default;
  void FindNeeds();
  int32_t NeedOf(const Node& node) const;
  void FindClasses();

  std::vector<Node> nodes_;
  std::vector<int32_t> targets_;
  std::vector<ByteSet> sets_;
  std::vector<int32_t> need_;
  int32_t start_ = 0;
  std::array<uint8_t, 256> class_of_ = {};
  std::vector<uint8_t> examples_;
  int32_t class_count_ = 0;
};

}  // namespace tenon
