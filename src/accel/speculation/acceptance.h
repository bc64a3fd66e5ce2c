// Acceptance: how often a sequence's guesses turn out right, and what a draft of g of them is
// therefore expected to give.
//
// A draft is right up to its first wrong guess, so a round with a of g accepted is a successes and,
// unless all were right, one failure; guesses behind it say nothing. Old rounds fade. Threading:
// values.
#pragma once

#include <cstdint>

namespace tenon {

class Acceptance {
 public:
  // `prior`: the probability assumed before anything was seen, worth kPriorTrials guesses.
  explicit Acceptance(double prior) : successes_(prior * kPriorTrials), trials_(kPriorTrials) {}

  // REQUIRES: 0 <= accepted <= proposed, proposed >= 1.
  void Observe(int64_t proposed, int64_t accepted);

  // Probability that a guess is right when those before it are.
  double rate() const { return successes_ / trials_; }

  // Tokens that a round with `guesses` guesses is expected to decide: 1 + a + ... + a^guesses
  // (Leviathan et al. 2023, eq. 1).
  double ExpectedTokens(int64_t guesses) const;

 private:
  // Few, so that a first bad round is believed.
  static constexpr double kPriorTrials = 3.0;
  // The last thirty or so guesses count: text changes its nature within a paragraph.
  static constexpr double kFading = 0.97;

  double successes_;
  double trials_;
};

}  // namespace tenon
