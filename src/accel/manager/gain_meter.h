// GainMeter: how much time one module saves, from steps with it and steps without it that lie next
// to each other in time.
//
// A round is a run of ordinary steps followed by a short burst of the opposite kind. What both cost
// per token, at the same number of sequences, is one pair; machine and load drift slowly against
// the length of a round, so a pair compares like with like. The saving is that of the medians over
// the last pairs: one disturbed burst does not move it.
//
// Plain data, no clock. Threading: one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace tenon {

// One step in which nothing was prefilled.
struct StepCost {
  int64_t sequences = 0;  // that took part
  int64_t tokens = 0;     // decided in it; 0 where a module threw its work away
  double seconds = 0.0;
};

class GainMeter {
 public:
  enum class Side : uint8_t { kWith, kWithout };

  void Observe(Side side, const StepCost& cost);
  // The burst is over: makes a pair of what was observed on both sides since the last one, if both
  // sides have steps with the same number of sequences.
  void EndRound();
  // Forgets everything: the module or what it is compared with has changed.
  void Reset();

  // 1 - seconds per token with / without; negative when the module costs time. None before
  // kMinPairs.
  std::optional<double> Saving() const;
  // Rises with every pair, so that a caller judges each one once.
  uint64_t pairs() const { return pairs_made_; }

  static constexpr size_t kMinPairs = 5;
  static constexpr size_t kMaxPairs = 9;  // odd: a median that is one of them

 private:
  // Sequences are told apart up to here; beyond, all are alike.
  static constexpr size_t kSequenceKinds = 33;
  struct Sum {
    int64_t tokens = 0;
    double seconds = 0.0;
  };
  struct Pair {
    double with = 0.0;  // seconds per token
    double without = 0.0;
  };

  std::array<std::array<Sum, kSequenceKinds>, 2> sums_{};
  std::deque<Pair> recent_;
  uint64_t pairs_made_ = 0;
};

}  // namespace tenon
