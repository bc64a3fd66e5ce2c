// Penalties on tokens that occurred among the last ones, prompt and answer alike.
//
// repetition: Keskar et al., "CTRL", arXiv 1909.05858, section 4.1, made aware of the sign as
// everywhere since: a positive logit is divided, a negative one multiplied.
// presence, frequency: the OpenAI API: logit -= presence + frequency * count.
//
// Owns the counts, one per vocabulary entry, and only when a penalty is on. Threading: one thread
// at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sample/sampling_params.h"

namespace tenon {

// Adds `delta` without leaving the finite numbers upwards; -infinity stays.
float AddToLogit(float logit, float delta);

class Penalties {
 public:
  // Counts the last params.penalty_last_n tokens (-1: all of them).
  Penalties(const SamplingParams& params, int32_t vocab_size);

  bool enabled() const { return !counts_.empty(); }

  // Takes in the newest token of `history`, which holds all tokens so far.
  void Accept(std::span<const int32_t> history);

  void Apply(std::span<float> logits);

 private:
  // A count of a token that isn't in listed_. Zero is one that is, but has left the window.
  static constexpr int32_t kUnlisted = -1;

  float Penalized(float logit, int32_t count) const;

  float repetition_;
  float presence_;
  float frequency_;
  int32_t last_n_;
  std::vector<int32_t> counts_;  // [vocab]
  std::vector<int32_t> listed_;  // the tokens whose count is not kUnlisted
};

}  // namespace tenon
