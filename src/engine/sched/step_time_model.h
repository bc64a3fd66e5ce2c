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

  // Tokens of prefill beside `decodes` decodes when `prompts` sequences are in their prefill: as
  // many as take kShare times as long as the decodes for each of up to kMaxPrompts of them; at
  // least one, so that a prefill always gets on, and kFirstChunk as long as nothing was measured.
  // REQUIRES: 1 <= decodes <= max_batch; prompts >= 1.
  int64_t ChunkBeside(int64_t decodes, int64_t prompts = 1) const;

  // The promise is less than 3 times the idle latency between tokens at the 99th percentile beside
  // one prefill. A step twice as long leaves room for noise and for a context that grows faster
  // than the mean follows, and a prefill beside others takes about twice as long as alone. Several
  // prompts are a burst: each gets such a share, or a batch of short answers would never fill,
  // since they end faster than prompts come in; the answers keep a fifth of the time at least. One
  // decode alone is so quick that few tokens fit beside it: any larger minimum than one would break
  // the promise there.
  static constexpr double kShare = 1.0;
  static constexpr int64_t kMaxPrompts = 4;
  static constexpr int64_t kMinChunk = 1;
  static constexpr int64_t kFirstChunk = 16;

 private:
  std::vector<double> decode_s_;  // [decodes]; 0: never seen
  double chunk_token_s_ = 0.0;
};

}  // namespace tenon
