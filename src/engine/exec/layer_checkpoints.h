// Layer checkpoints: the hidden states at the input of every k-th layer, from which the KV of all
// layers can be rebuilt.
//
// With k = 1 each layer's keys and values are one projection away from its input; a larger k keeps
// 1/k of the states and runs the layers in between again. From the last layer of each group only
// what leads to its keys and values is run. The states are kept as the step computed them, so the
// KV comes back with the same bits.
//
// StateLog belongs to one sequence; LayerCheckpoints to one runner, which must outlive it.
// Threading: that of the runner.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/exec/batch_builder.h"
#include "engine/exec/model_runner.h"
#include "engine/kv/sequence.h"
#include "graph/graph.h"

namespace tenon {

// A place in the plan at which nothing is alive but the hidden states.
struct LayerCut {
  size_t step = 0;       // index of the plan's step before which they are there
  size_t attention = 0;  // of the step that writes the layer's KV
  int64_t offset = 0;    // of the states [N, columns] in the arena, F32
  int64_t columns = 0;
};

// One for each layer. Fails with kUnsupported for a graph whose layers share more than that.
Result<std::vector<LayerCut>> FindLayerCuts(const Graph& graph, const PlanOptions& options);

// The kept states of positions [base, end) of one sequence.
class StateLog {
 public:
  int64_t base() const { return base_; }
  int64_t end() const { return end_; }
  int64_t bytes() const { return static_cast<int64_t>(pieces_.size()) * piece_bytes_; }
  void Clear() { *this = StateLog(); }
  // Positions from `length` on were dropped.
  void Truncate(int64_t length);

 private:
  friend class LayerCheckpoints;
  int64_t base_ = 0;
  int64_t end_ = 0;
  int64_t piece_bytes_ = 0;
  // [(position - base) / kKvBlockTokens], each [checkpoints][kKvBlockTokens][columns]
  std::vector<std::unique_ptr<float[]>> pieces_;
};

class LayerCheckpoints final : public StepTap {
 public:
  // `interval` is k. Fails with kInvalidArgument for one outside 1 to the number of layers, and as
  // FindLayerCuts does.
  static Result<std::unique_ptr<LayerCheckpoints>> Create(ModelRunner& runner, int64_t interval);
  ~LayerCheckpoints() override { runner_.SetTap(nullptr); }

  // The states of the sequences that are watched are kept in their logs as steps compute them. A
  // sequence is known by its block table. Both must stay where they are until Forget.
  void Watch(const Sequence& sequence, StateLog& log) { watched_.emplace_back(&sequence, &log); }
  void Forget() { watched_.clear(); }
  void Before(size_t step, const Batch& batch, const std::byte* arena) override;

  // Writes the KV of the next `count` positions of `sequence` and appends `tokens`, as a step would
  // have done. REQUIRES: they are reserved, the log covers them, count is at most the plan's
  // tokens.
  Status Rebuild(Sequence& sequence, std::span<const int32_t> tokens, const StateLog& log);

  int64_t checkpoints() const { return static_cast<int64_t>(cuts_.size()); }
  int64_t bytes_per_token() const;
  // The part of a step's plan steps that a rebuild runs: a first guess of its cost.
  double share() const { return share_; }

 private:
  struct Group {
    LayerCut cut;
    size_t last_step = 0;  // one after the last one that a rebuild runs
  };
  LayerCheckpoints(ModelRunner& runner, std::vector<Group> groups);
  void Keep(StateLog& log, size_t checkpoint, int64_t position, const float* row) const;
  const float* RowOf(const StateLog& log, size_t checkpoint, int64_t position) const;

  ModelRunner& runner_;
  std::vector<Group> cuts_;
  double share_ = 1.0;
  std::vector<std::pair<const Sequence*, StateLog*>> watched_;
  BatchBuilder builder_;
};

}  // namespace tenon
