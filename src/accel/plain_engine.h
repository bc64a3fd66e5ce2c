// PlainEngine: the last link of the chain. Runs the target model over the tasks' tokens as one
// batch, lets the samplers draw, and verifies guesses in the same step: a guess that the sampler
// confirms is decided and computed at once, the first that it does not confirm is replaced by the
// token that was drawn, and what follows it is dropped. So guesses never change what is said, only
// how many steps it takes.
//
// Ownership: none; the runner and the pool outlive it. Threading: one thread; draws of different
// sequences run on all of the pool's.
#pragma once

#include <vector>

#include "accel/step_engine.h"
#include "engine/exec/batch_builder.h"
#include "engine/exec/model_runner.h"
#include "hal/thread_pool.h"

namespace tenon {

class PlainEngine : public StepEngine {
 public:
  PlainEngine(ModelRunner& runner, ThreadPool& pool) : runner_(runner), pool_(pool) {}

  Status Advance(std::span<SequenceTask> tasks) override;
  PendingWork Pending(SequenceTask& task) override;
  void Forget(SequenceKey key) override { (void)key; }
  StepCapacity capacity() const override;

 private:
  // A task's place in the batch.
  struct Part {
    SequenceTask* task = nullptr;
    int64_t first_row = 0;
    int64_t rows = 0;
    int64_t guesses = 0;
    bool decides = false;  // Decides(), before the step
  };
  struct Draw {
    const Part* part = nullptr;
    size_t sampler = 0;
  };

  void FitGuesses(std::span<SequenceTask> tasks);
  void AddPart(SequenceTask& task);
  void TakeRows(const Part& part, std::span<const float> logits);
  void RunDraws(std::span<const float> logits);
  Status Decide(const Part& part, std::span<const float> logits);
  Status DrawFork(const Part& part, size_t sampler, std::span<const float> logits);
  void KeepAccepted(const Part& part);
  std::span<const float> Row(std::span<const float> logits, int64_t row) const;

  ModelRunner& runner_;
  ThreadPool& pool_;
  BatchBuilder builder_;
  std::vector<Part> parts_;
  std::vector<Draw> draws_;
  int64_t rows_ = 0;
};

}  // namespace tenon
