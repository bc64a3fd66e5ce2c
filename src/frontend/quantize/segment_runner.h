// SegmentRunner: one piece of a model (graph/slice.h) run in float over many sequences.
//
// Owns the piece's weights in memory, packed. Holds references to weights and pool. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/exec/model_runner.h"
#include "frontend/quantize/layered_weights.h"
#include "graph/slice.h"
#include "hal/kernel_set.h"
#include "hal/thread_pool.h"
#include "quant/matrix.h"

namespace tenon {

// The calibration text: sequences of token ids, one after the other.
struct TokenSequences {
  std::vector<int32_t> tokens;
  std::vector<int64_t> ends;  // of each sequence, in tokens

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
};

class SegmentRunner {
 public:
  // Tokens of one step, and of one sequence, at most.
  static constexpr int64_t kStepTokens = 512;

  struct Environment {
    LayeredWeights& weights;
    const KernelSet& kernels;
    ThreadPool& pool;
  };
  static Result<std::unique_ptr<SegmentRunner>> Create(const Graph& graph, const GraphRange& range,
                                                       const Environment& environment,
                                                       SliceOutputs outputs);

  // Values of the original graph whose rows a run shows, in order.
  const std::vector<ValueId>& observed() const { return observed_; }

  // Called for each step with the rows of each observed value.
  using Observer = std::function<void(size_t index, const MatrixView& rows)>;

  // Runs all sequences on the values `in` [tokens, columns] that pass the cut before this piece
  // (not read when the piece begins with token ids). `out`, if not null, takes those that pass the
  // cut after it; it may be `in` itself. `observer` may be empty. REQUIRES: `out` is null with
  // SliceOutputs::kObservedOnly.
  Status Run(const TokenSequences& sequences, const Matrix& in, Matrix* out,
             const Observer& observer);

 private:
  SegmentRunner(const Environment& environment, const GraphRange& range)
      : environment_(environment), takes_states_(range.input.valid()) {}
  // Sequences [first, end) in one step; the values that come out.
  Result<std::span<const float>> RunStep(const TokenSequences& sequences, size_t first, size_t end,
                                         const Matrix& in);

  Environment environment_;
  bool takes_states_;
  size_t first_observed_ = 1;  // output of the slice
  std::unique_ptr<ModelRunner> runner_;
  std::vector<ValueId> observed_;
};

}  // namespace tenon
