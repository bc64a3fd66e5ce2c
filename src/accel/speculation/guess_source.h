// GuessSource: where the guesses of a speculating module come from.
//
// The engine around it (speculation_engine.h) decides for which sequences and how many are worth
// having, has them verified, and keeps the statistics. Ownership: a source owns its state for each
// sequence, until Forget. Threading: one thread at a time.
#pragma once

#include <cstdint>
#include <span>

#include "accel/step_engine.h"
#include "base/result.h"

namespace tenon {

struct GuessRequest {
  SequenceTask* task = nullptr;  // whose `guesses` the source fills
  int64_t most = 1;              // guesses, >= 1
};

class GuessSource {
 public:
  virtual ~GuessSource() = default;
  // Fills each task's guesses with up to `most` tokens; none where it has no good ones.
  virtual Status Propose(std::span<const GuessRequest> requests) = 0;
  // The step is over: of the task's guesses `tried` were verified and task.accepted were right.
  virtual void Observe(const SequenceTask& task, int64_t tried) {
    (void)task;
    (void)tried;
  }
  virtual void Forget(SequenceKey key) = 0;
  virtual void ForgetAll() = 0;
  // As Module::Warm.
  virtual Status Warm() { return {}; }
  // Memory that it holds.
  virtual int64_t bytes() const { return 0; }
};

}  // namespace tenon
