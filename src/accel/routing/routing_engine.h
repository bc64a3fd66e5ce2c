// RoutingEngine: the step engine of the routing module. A sequence that the small model leads is
// computed by it alone; one that the large model leads goes on to the next engine of the chain.
//
// Each model has KV of its own (they can never share it). The one that does not lead falls behind;
// when it takes over it computes what it has not seen in one forward pass, at the right positions.
// A switch to the large model drops the small one's token before the sampler accepts it, so nothing
// has to be taken back.
//
// Predictive preloading: where the history of requests of a kind says that the large model will be
// asked, it computes the sequence in pieces beside the small model's steps, so that a switch finds
// it a piece behind at most instead of a whole prompt.
//
// Ownership: the small model's sequences; runner, pool and scorer outlive it. Threading: one
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "accel/manager/need_predictor.h"
#include "accel/routing/decision_cache.h"
#include "accel/routing/decision_replay.h"
#include "accel/routing/route_state.h"
#include "accel/routing/router_net.h"
#include "accel/routing/routing_options.h"
#include "accel/step_engine.h"
#include "engine/exec/batch_builder.h"
#include "engine/exec/model_runner.h"
#include "hal/thread_pool.h"

namespace tenon {

// Who decided a token, for the audit.
struct RouteRecord {
  RouteSide side = RouteSide::kSmall;
  double confidence = 0.0;  // that side's; 0 where it was not measured
};

struct RoutingCounters {
  uint64_t small_steps = 0;   // sequence steps of the small model
  uint64_t offered = 0;       // tokens that the small model offered
  uint64_t small_tokens = 0;  // of them, kept
  uint64_t large_tokens = 0;
  uint64_t switches = 0;
  uint64_t caught_up = 0;        // tokens computed again because the other model led
  uint64_t preloaded = 0;        // tokens that the large model computed ahead of a switch
  uint64_t largest_lag = 0;      // tokens that it had to catch up with at one switch
  uint64_t skipped = 0;          // small steps saved by remembered decisions
  uint64_t small_kv_full = 0;    // sequences handed over for want of KV
  uint64_t replays = 0;          // decisions replayed
  uint64_t replay_failures = 0;  // that came out differently
  double seconds = 0.0;          // all of the module's own work, the small model's steps included
  double overhead_s = 0.0;       // of them, outside the small model's steps
};

class RoutingEngine : public StepEngine {
 public:
  // `scorer` is null unless options.score is kTrained.
  RoutingEngine(ModelRunner& small, ThreadPool& pool, const RouterScorer* scorer,
                const RoutingOptions& options);

  void Attach(StepEngine& next, ModuleMask bit);
  void Clear();

  Status Advance(std::span<SequenceTask> tasks) override;
  PendingWork Pending(SequenceTask& task) override;
  void Forget(SequenceKey key) override;
  StepCapacity capacity() const override;

  const RoutingCounters& counters() const { return counters_; }
  // What was decided for the sequence so far, one record for each token of the answer that was
  // decided while the module worked on it. Empty for an unknown key.
  std::span<const RouteRecord> Audit(SequenceKey key) const;
  // Finishes the replay that is under way, and those of decisions that wait for one.
  Status FinishReplays();

  DecisionCache& cache() { return cache_; }
  int64_t sequences() const { return static_cast<int64_t>(routes_.size()); }

  // Tokens of a preloaded piece: enough for efficient products, few enough for a short step.
  static constexpr int64_t kPreloadPiece = 16;

 private:
  using Clock = std::chrono::steady_clock;

  struct Route {
    explicit Route(Sequence sequence) : small(std::move(sequence)) {}
    Sequence small;
    RouteState state;
    PrefixHash prefix;  // of the known tokens
    std::vector<RouteRecord> audit;
    double large_confidence = 0.0;  // of this step
    int64_t large_known = 0;        // known tokens when the large model last decided
    size_t kind = 0;                // of the request, for the prediction
  };
  struct SmallPart {
    SequenceTask* task = nullptr;
    Route* route = nullptr;
    int64_t row = -1;  // output row; -1: nothing is decided
    double confidence = 0.0;
    bool is_known = false;  // the confidence came from the cache
  };

  bool IsMine(const SequenceTask& task) const { return (task.modules & bit_) != 0; }
  Route& RouteFor(const SequenceTask& task);
  bool IsLed(Route& route, const SequenceTask& task);
  void HashKnown(Route& route, const SequenceTask& task) const;
  Status RunSmall();
  bool AddSmall(SequenceTask& task, Route& route);
  void ScoreSmall(std::span<const float> logits);
  double ConfidenceOf(std::span<const float> logits) const;
  void DecideSmall(SmallPart& part, std::span<const float> logits, Clock::time_point now);
  Status DrawAll(SequenceTask& task, std::span<const float> row) const;
  void SampleReplay(const SmallPart& part);
  void Preload(SequenceTask& task, const Route& route);
  void CountLag(const SequenceTask& task, const Route& route);
  Status RunNext(std::span<SequenceTask> tasks);
  void PrepareLarge(SequenceTask& task, Route& route);
  void TakeLarge(SequenceTask& task, Route& route, Clock::time_point now);

  ModelRunner& small_;
  ThreadPool& pool_;
  const RouterScorer* scorer_;
  RoutingOptions options_;
  StepEngine* next_ = nullptr;
  ModuleMask bit_ = 0;
  std::unordered_map<SequenceKey, std::unique_ptr<Route>> routes_;
  DecisionCache cache_;
  DecisionReplay replay_;
  NeedPredictor needs_;
  RoutingCounters counters_;

  // Of the current step.
  BatchBuilder builder_;
  std::vector<SmallPart> parts_;
  std::vector<SequenceTask> forwarded_;
  std::vector<size_t> places_;  // of the forwarded tasks
  std::vector<SequenceTask> preloads_;
  int64_t rows_ = 0;
};

}  // namespace tenon
