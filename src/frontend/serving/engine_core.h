// EngineCore: the single-threaded heart of the serving engine. Holds the waiting and the running
// choices, asks the policies of engine/sched/ what to do, runs the steps and tells the sinks.
//
// KV: a choice enters only when the pool has room for all its tokens and one more block for each
// running choice. When it runs out all the same, the one that NextToPreempt names gives its blocks
// back and goes to the front of the queue; it recomputes its KV later, what was said stays said and
// its sampler goes on. A prompt whose beginning a running request is just computing is held until
// that is done, then takes over its blocks.
//
// Steps go through a StepEngine: the plain one, or a chain of modules in front of it, which may
// decide several tokens of a sequence at once.
//
// Threading: one thread at a time; only that thread uses the step engine, the model's runner and
// pool.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "accel/step_engine.h"
#include "engine/exec/batch_builder.h"
#include "engine/sched/step_plan.h"
#include "engine/sched/step_time_model.h"
#include "frontend/serving/active_request.h"
#include "frontend/serving/slot_table.h"

namespace tenon {

class EngineCore {
 public:
  // `steps` runs on the model's runner and outlives the core.
  EngineCore(Model& model, StepEngine& steps, const ServingOptions& options,
             ServingObserver* observer);

  // Runs a prefill and some decodes on made-up tokens: touches all memory that steps use and gives
  // the step times a first estimate.
  Status WarmUp();

  void Accept(std::unique_ptr<ActiveRequest> request);
  // Ends the request with `error`; nothing when it is over.
  void End(RequestId id, const Error& error);
  void EndAll(const Error& error);

  // One round: deadlines, entry, one step, its events. Returns when the next one is due:
  // SchedTime::min() for at once, SchedTime::max() when there is nothing to wait for.
  SchedTime RunOnce();
  // Nothing runs and nothing waits: returns when to come again if nothing arrives before.
  SchedTime Idle() { return steps_.Idle(); }

  Result<SlotResult> RunSlotOrder(const SlotOrder& order) {
    return slots_.Run(order, runner_.kv());
  }

  int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }
  int64_t requests() const { return static_cast<int64_t>(requests_.size()); }
  // All but uptime_s.
  ServingStats stats() const;

 private:
  using Clock = std::chrono::steady_clock;
  using ChoicePtr = std::unique_ptr<Choice>;

  // The part of a step that belongs to one choice; tasks_ has its task at the same index.
  struct Part {
    Choice* choice = nullptr;
    bool is_scored = false;  // its output rows were wanted
    std::vector<Sampler*> samplers;
  };
  // What a step decided for one choice.
  struct Decision {
    Choice* choice = nullptr;
    std::vector<SampledToken> tokens;  // none: none was wanted, the answer is over
  };

  // engine_core_entry.cc: who runs.
  void EndPassedDeadlines(SchedTime now);
  SchedTime AdmitWaiting(SchedTime now);
  bool Enter(Choice& choice);
  int64_t MatchPrefix(Choice& choice);
  void FindLeader(Choice& choice);
  bool IsHeld(const Choice& choice) const;
  void TakeOverPrefix(Choice& choice);
  void Preempt(size_t running_index);
  int64_t SlotsInUse() const;
  void RemoveOver();

  // engine_core_rebuild.cc: KV from layer checkpoints.
  void WatchStates();
  void TrimStates();
  bool KeepsStates(const Choice& choice) const;
  void BeginRebuild(Choice& choice);
  void RebuildSome();

  // engine_core.cc: what a step does.
  StepPlan PlanStep();
  SequenceLoad LoadOf(Choice& choice);
  SequenceTask TaskOf(Choice& choice, Part& part);
  std::vector<Choice*> ReserveFor(const StepPlan& plan);
  bool ReserveOne(Choice& choice, int64_t tokens);
  void AddPart(Choice& choice, int64_t tokens);
  void TellBegun(SchedTime now);
  void RunStep(const StepPlan& plan);
  void FailStep(const Error& error);
  void CountStep(const StepPlan& plan, double seconds);

  // engine_core_results.cc: what came of it.
  void TakeResults();
  void TakeRows(ActiveRequest& request, int64_t count, std::span<const float> rows);
  void TakeHidden(ActiveRequest& request, std::span<const float> hidden);
  void ScorePrompt(ActiveRequest& request, int64_t count, std::span<const float> logits);
  void TellScored(ActiveRequest& request);
  void CollectDecisions(const Part& part, SequenceTask& task);
  void BeginChoices(Choice& first, std::span<SampledToken> tokens);
  void TakeDecision(Decision& decision, SchedTime now);
  void TakeToken(Choice& choice, SampledToken sampled, SchedTime now);
  void RecordTime(Choice& choice, SchedTime now);
  void TellStarted(ActiveRequest& request);
  void TellText(Choice& choice, Answer::Piece& piece, SampledToken sampled);
  void TellDone(Choice& choice, FinishReason reason, std::string stop_text, SchedTime now);
  void TellFinished(ActiveRequest& request, SchedTime now);
  void TellError(ActiveRequest& request, const Error& error);
  void TellEmbedding(ActiveRequest& request);

  Model& model_;
  ModelRunner& runner_;
  StepEngine& steps_;
  ServingOptions options_;
  ServingObserver* observer_;
  StepTimeModel step_times_;
  TenantTurns turns_;
  SlotTable slots_;
  std::unique_ptr<LayerCheckpoints> checkpoints_;  // null with Preemption::kRecompute
  double rebuild_token_s_ = 0.0;                   // 0: not measured
  std::unordered_map<RequestId, std::unique_ptr<ActiveRequest>> requests_;
  std::vector<ChoicePtr> waiting_;
  std::vector<ChoicePtr> running_;  // in the order of entry
  ServingStats counters_;

  // The waiting choice that the pool had no room for, and the blocks it had: not tried again before
  // there are more.
  const Choice* blocked_ = nullptr;
  int32_t blocked_available_ = 0;

  // Of the current step.
  BatchBuilder builder_;
  std::vector<Part> parts_;
  std::vector<SequenceTask> tasks_;
  std::vector<Decision> decisions_;

  SequenceKey last_key_ = 0;
};

}  // namespace tenon
