// CheckWhole: what is true of every sequence after a step, whatever modules did to it.
//
// Decided tokens are those that the request's sampler drew, all of them, once and in order (the
// sampler keeps a digest of what it accepted); the target's KV stands for a beginning of known and
// decided tokens and lacks the last one; limits are kept. The chain checks this behind every
// module, and a module's own PostAggregator may use it as it is. Pure. Threading: values.
#pragma once

#include <cstdint>

#include "accel/module.h"
#include "base/result.h"

namespace tenon {

// Fails with kInternal, saying what is broken.
Status CheckWhole(const StepOutcome& outcome, int64_t vocab_size);

// The post-aggregator of a module that has nothing else to verify.
class WholeSequences : public PostAggregator {
 public:
  Status Verify(const StepOutcome& outcome) override {
    (void)outcome;  // the chain has checked it already
    return {};
  }
};

}  // namespace tenon
