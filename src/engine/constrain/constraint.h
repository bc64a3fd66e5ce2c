// Constraint: a grammar over one vocabulary, as masks of the tokens that may come next.
//
// The automaton (automaton.h) is made deterministic as it is used: a state is a set of stacks,
// states and stacks are stored once, and what a byte does to a state is remembered. The mask of a
// state is found by walking the tree of tokens (token_trie.h) and remembered, too. Counters that
// one token can't exhaust are the same to it, so a string of at most 5000 characters has few masks,
// not 5000.
//
// Holds its tables for as long as it lives; they grow with what is generated, up to a limit beyond
// which the constraint is exhausted: a grammar that is so ambiguous can't be followed. The trie
// must outlive it. Threading: any thread; one at a time inside.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "engine/constrain/automaton.h"
#include "engine/constrain/token_trie.h"

namespace tenon {

struct ConstraintStats {
  uint64_t masks = 0;        // asked for
  uint64_t walks = 0;        // of these, not remembered yet
  double walk_seconds = 0;   // of all walks
  double worst_seconds = 0;  // of one
  size_t states = 0;
  size_t cells = 0;
  size_t bytes = 0;  // of the tables, about
};

class Constraint {
 public:
  using State = int32_t;
  static constexpr State kDead = -1;  // no text goes on like this

  // Fails as Automaton::Compile does.
  static Result<std::unique_ptr<Constraint>> Create(const Grammar& grammar, Grammar::Term root,
                                                    const TokenTrie& trie);

  State start() const { return start_; }
  State AfterBytes(State state, std::string_view bytes);
  // The text may end here.
  bool IsAccepting(State state) const;
  // The text may end here and can't go on.
  bool IsFinal(State state) const;

  // Tokens that may follow; stop tokens where the text may end. kDead: stop tokens
  // alone. REQUIRES: out has trie().mask_words() words.
  void Mask(State state, std::span<uint64_t> out);

  // A limit of the tables was met: what came after it says nothing, and whoever uses the constraint
  // gives up. Once true it stays so.
  bool IsExhausted() const { return is_exhausted_; }

  const TokenTrie& trie() const { return trie_; }
  ConstraintStats stats() const;

 private:
  static constexpr State kUnknown = -2;

  // A frame of a stack, linked to the ones below it; the topmost one stands for the whole stack.
  struct Cell {
    int32_t below = -1;  // -1: none
    int32_t node = 0;
    int64_t min = 0;  // kLoop frames: repetitions that are missing, and
    int64_t max = 0;  // that are allowed
    bool operator==(const Cell&) const = default;
  };
  struct CellInfo {
    int32_t depth = 0;        // frames below
    int32_t clamped = -1;     // ClampCell's result; -1: not known yet
    uint32_t visited = 0;     // round of the closure that saw it last
    State closed = kUnknown;  // what Close makes of this stack alone
  };
  struct StateInfo {
    std::vector<int32_t> cells;  // stacks whose topmost frame reads a byte, sorted
    bool is_accepting = false;
    State clamped = kDead;  // kDead: not known yet
    int32_t mask = -1;      // index into masks_
  };
  struct StateKeyHash {
    size_t operator()(const std::vector<int32_t>& key) const;
  };
  // A string's loop that the state can be in.
  struct StringLoop {
    int64_t characters = 0;  // that may follow; Grammar::kNoLimit
    bool is_alone = false;   // nothing else takes safe bytes
  };

  Constraint(Automaton automaton, const TokenTrie& trie);

  static size_t HashOf(const Cell& cell);
  void GrowSlots();
  int32_t InternCell(const Cell& cell);
  State InternState(StateInfo info);
  void Expand(int32_t cell, bool& is_accepting);
  State Close(std::span<const int32_t> open);
  State CloseKnown(std::span<const int32_t> open);
  size_t TableBytes() const;
  State Step(State state, size_t byte_class);
  State Next(State state, uint8_t byte) {
    const size_t byte_class = automaton_.class_of(byte);
    const State known = next_[static_cast<size_t>(state) * automaton_.classes() + byte_class];
    return known >= kDead ? known : Step(state, byte_class);
  }
  int32_t ClampCell(int32_t cell);
  State Clamp(State state);
  bool FindStringLoop(State state, StringLoop& loop) const;
  void Walk(const TokenTrie::Tree& tree, State state, std::span<uint64_t> out);
  void MakeMask(State state, std::span<uint64_t> out);

  const Automaton automaton_;
  const TokenTrie& trie_;
  State start_ = kDead;

  mutable std::mutex mutex_;  // guards all below
  std::vector<Cell> cells_;
  std::vector<CellInfo> cell_info_;
  // Indices of cells by hash, -1 where none is: open addressing, at most half full.
  std::vector<int32_t> cell_slots_;
  std::vector<StateInfo> states_;
  std::vector<State> next_;  // [states][classes]; kUnknown: not looked at
  std::unordered_map<std::vector<int32_t>, State, StateKeyHash> state_index_;
  // What Close made of several stacks: many bytes lead a state to the same ones.
  std::unordered_map<std::vector<int32_t>, State, StateKeyHash> closed_;
  std::vector<TokenMask> masks_;
  std::vector<int32_t> open_;     // of the closure
  std::vector<int32_t> reading_;  // of the closure
  std::vector<int32_t> stepped_;  // of a step
  uint32_t round_ = 0;
  size_t work_ = 0;        // stacks looked at since the last question from outside
  size_t kept_cells_ = 0;  // in all states and keys
  std::atomic<bool> is_exhausted_ = false;
  std::vector<State> path_;  // of a walk
  ConstraintStats stats_;
};

// Where one text has got to.
class ConstraintCursor {
 public:
  explicit ConstraintCursor(Constraint& constraint)
      : constraint_(&constraint),
        state_(constraint.start()),
        mask_(constraint.trie().mask_words()) {}

  // Valid until the next call. After a token that was not allowed the text can only end.
  std::span<const uint64_t> Mask() {
    constraint_->Mask(state_, mask_);
    return mask_;
  }
  void Accept(int32_t token) {
    state_ = constraint_->AfterBytes(state_, constraint_->trie().Bytes(token));
  }
  void Restart() { state_ = constraint_->start(); }
  bool IsOver() const {
    return state_ == Constraint::kDead ? !IsExhausted() : constraint_->IsFinal(state_);
  }
  bool IsExhausted() const { return constraint_->IsExhausted(); }

 private:
  Constraint* constraint_;
  Constraint::State state_;
  TokenMask mask_;
};

}  // namespace tenon
