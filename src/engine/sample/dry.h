// DRY, "don't repeat yourself" (p-e-w, oobabooga/text-generation-webui pull request 5677).
//
// A token that would extend a repetition is made unlikely: if the last n tokens also stand
// somewhere earlier, followed by token t, and n >= allowed_length, then
//   logit[t] -= multiplier * base^(n - allowed_length)
// with the longest such n. A repetition never reaches across a sequence breaker, and a token that
// is a breaker by itself is never penalised.
//
// Owns its tables. Threading: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/sample/sampling_params.h"

namespace tenon {

// Each breaker is a sequence of one or more tokens (dry_breakers.h makes them from text).
using DryBreakers = std::vector<std::vector<int32_t>>;

class Dry {
 public:
  // REQUIRES: breakers are not empty sequences, and their tokens are within the vocabulary.
  Dry(const SamplingParams& params, int32_t vocab_size, DryBreakers breakers);

  bool enabled() const { return !longest_.empty(); }

  // Takes in the newest token of `history`, which holds all tokens so far.
  void Accept(std::span<const int32_t> history);

  // Forgets the history.
  void Restart() { after_breaker_ = 0; }

  // Time grows with the tokens looked at: dry_penalty_last_n, or all of them.
  void Apply(std::span<const int32_t> history, std::span<float> logits);

 private:
  bool EndsWithBreaker(std::span<const int32_t> history) const;
  void FindRepetitions(std::span<const int32_t> window, size_t limit);
  void Note(int32_t next, size_t length);
  float PenaltyOf(int32_t length) const;

  float multiplier_;
  float base_;
  int32_t allowed_length_;
  int32_t last_n_;
  DryBreakers breakers_;          // those of two tokens and more, by their last token
  std::vector<bool> is_breaker_;  // [vocab] breakers of one token
  size_t after_breaker_ = 0;      // index in the history right after the last breaker
  std::vector<int32_t> longest_;  // [vocab] longest repetition that the token would extend, or 0
  std::vector<int32_t> touched_;  // the tokens with longest_ > 0
  std::vector<size_t> match_;     // scratch of FindRepetitions
};

}  // namespace tenon
