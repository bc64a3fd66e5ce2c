// SpeculationEngine: guesses in front of the next engine, from any source.
//
// Each step: which sequences decide and have room, how long a draft pays (draft_length.h), the
// source's guesses for them, one step of the next engine, which verifies. A sequence that joined
// but whose guesses would not pay goes through as it came. Owned by its module. Threading: one
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "accel/module.h"
#include "accel/speculation/draft_length.h"
#include "accel/speculation/guess_source.h"
#include "accel/step_engine.h"

namespace tenon {

class SpeculationEngine : public StepEngine {
 public:
  // `source` outlives the engine. `prior`: the acceptance that is assumed at first.
  SpeculationEngine(GuessSource& source, const DraftLengthOptions& options, double prior)
      : source_(source), length_(options), prior_(prior) {}

  void Attach(StepEngine& next, ModuleMask bit);
  void ForgetAll();

  Status Advance(std::span<SequenceTask> tasks) override;
  PendingWork Pending(SequenceTask& task) override { return next_->Pending(task); }
  void Forget(SequenceKey key) override;
  StepCapacity capacity() const override { return next_->capacity(); }

  const ModuleStats& stats() const { return stats_; }
  const DraftLength& length() const { return length_; }

 private:
  using Clock = std::chrono::steady_clock;

  void CollectRequests(std::span<SequenceTask> tasks);
  int64_t ChooseLength(std::span<SequenceTask> tasks);
  Status Propose(std::span<SequenceTask> tasks);
  void ObserveStep(std::span<const SequenceTask> tasks, double seconds);
  Acceptance& AcceptanceOf(SequenceKey key);

  GuessSource& source_;
  DraftLength length_;
  double prior_;
  StepEngine* next_ = nullptr;
  ModuleMask bit_ = 0;
  std::unordered_map<SequenceKey, Acceptance> acceptances_;
  ModuleStats stats_;
  // Of the current step.
  std::vector<GuessRequest> requests_;
  std::vector<int64_t> proposed_;  // [requests]
};

}  // namespace tenon
