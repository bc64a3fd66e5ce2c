// DraftSampler: draws a draft's tokens the way the request's sampler will.
//
// A copy of the request's sampler, taken anew for each draft, so that penalties and what else looks
// back see the guesses as the answer. With kSameDraw it meets the random numbers that the request's
// own sampler will meet, and draws the same token wherever the two distributions allow it; with
// kRejection it uses numbers of its own and keeps each guess's distribution. Threading: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "accel/speculation/speculation_module.h"
#include "accel/step_engine.h"

namespace tenon {

class DraftSampler {
 public:
  explicit DraftSampler(GuessAcceptance acceptance) : acceptance_(acceptance) {}

  // Begins a draft for the task, whose guesses are cleared.
  void Begin(SequenceTask& task);
  // Draws the next guess from the draft's logits and adds it to the task's guesses.
  Status Draw(SequenceTask& task, std::span<const float> logits);

 private:
  GuessAcceptance acceptance_;
  bool by_rejection_ = false;  // of this draft
  std::optional<Sampler> sampler_;
};

}  // namespace tenon
