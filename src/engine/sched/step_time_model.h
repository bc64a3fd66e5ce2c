// StepTimeModel: what steps have cost lately, to choose how much prefill fits beside decodes.
//
// Keeps a smoothed time for steps of n decodes alone, for each n, and a smoothed cost of one token
// of prefill on top of it. Costs drift with the context and with what else the machine does, so
// recent steps count most. Never reads a clock. Threading: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon {

class StepTimeModel {
 public:
  explicit StepTimeModel(int64_t max_batch) : decode_s_(static_cast<size_t>(max_batch) + 1, 0.0) {}

  // A step of `decodes` decodes and `chunk` other tokens took `seconds`.
  void Observe(int64_t decodes, int64_t chunk, double seconds);

  // Expected seconds of a step of `decodes` decodes alone; 0 when nothing is known.
  double DecodeSeconds(int64_t decodes) const;
  // Expected seconds that one more token of prefill adds; 0 when nothing is known.
  double ChunkTokenSeconds() const { return chunk_token_s_; }

  // Tokens of prefill beside `decodes` decodes with which the step takes kStretch times as long as
  // without them; at least one, so that a prefill always gets on, and kFirstChunk as long as
  // nothing was measured. REQUIRES: 1 <= decodes <= max_batch.
  int64_t ChunkBeside(int64_t decodes) const;

  // The promise is less than 3 times the idle latency between tokens at the 99th percentile. Twice
  // leaves room for noise and for a context that grows faster than the mean follows, and gives each
  // of the two kinds of work half of the machine: a prefill beside others takes about twice as long
  // as alone, and so does a token of theirs. One decode alone is so quick that few tokens fit
  // beside it: any larger minimum than one would break the promise there.
  static constexpr double kStretch = 2.0;
  static constexpr int64_t kMinChunk = 1;
  static constexpr int64_t kFirstChunk = 16;

 private:
  std::vector<double> decode_s_;  // [decodes]; 0: never seen
  double chunk_token_s_ = 0.0;
};

}  // namespace tenon
