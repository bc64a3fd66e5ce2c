// SupervisedEngine: a module chain under a supervisor, as one step engine. Measures what every step
// cost, lets the supervisor judge, and gives each task the modules that the supervisor chose.
//
// A module that a rule withdraws stays in the chain and gets no tasks, so that a trial costs
// nothing to set up; one that is switched off, or did not fit its quota, leaves the chain and drops
// its state. Either way requests go on: every module may leave at any step's end.
//
// Owns the supervisor; the chain outlives it. Threading: one thread, that of the steps, but for
// report(), which is for any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "accel/manager/preloader.h"
#include "accel/manager/supervisor.h"
#include "accel/manager/switch_meter.h"
#include "accel/module_chain.h"
#include "accel/step_engine.h"

namespace tenon {

// What is known of all modules at one time.
struct ManagerReport {
  struct Entry {
    SupervisionReport supervision;
    ModuleReport module;  // as the chain counts it
  };
  std::vector<Entry> modules;       // outermost first
  std::vector<Decision> decisions;  // the latest, oldest first
  uint64_t decisions_made = 0;      // since the start
  MonitoringRules rules;
  double p99_s = 0.0;  // of the time between two tokens, last full window of the active set
  std::optional<double> switch_overhead_s;  // of a change of modules, median of the last ones
  uint64_t switches = 0;                    // that were measured
  uint64_t warmed = 0;                      // modules warmed ahead of a request
};

// Shares of the module memory by module name, as `module_memory_quota` has them. A module without a
// share may take what it takes.
struct ModuleQuotas {
  int64_t module_memory = 0;  // bytes; 0: no limits
  std::vector<std::pair<std::string, double>> shares;
};

class SupervisedEngine : public StepEngine {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  // Takes in the modules that are in the chain. `clock` is for tests.
  static Result<std::unique_ptr<SupervisedEngine>> Create(
      ModuleChain& chain, const MonitoringRules& rules, const ModuleQuotas& quotas,
      Clock clock = std::chrono::steady_clock::now);

  Status Advance(std::span<SequenceTask> tasks) override;
  PendingWork Pending(SequenceTask& task) override;
  void Forget(SequenceKey key) override;
  StepCapacity capacity() const override { return chain_.capacity(); }
  ModuleMask MaskOf(std::string_view name) const override { return chain_.MaskOf(name); }
  // Predictive preloading: warms the modules that the next request is likely to need.
  std::chrono::steady_clock::time_point Idle() override;

  Status Set(std::string_view module, Supervisor::Switch to);
  Status SetRules(const MonitoringRules& rules);
  // A module of the chain was added, removed or replaced: supervision begins anew, with the same
  // rules and quotas.
  Status ChainChanged();

  ManagerReport report() const;

  // A step that computes more than this of one sequence is a prefill: it says nothing about the
  // cost of a token. A model that catches up after a switch stays below.
  static constexpr int64_t kMaxCatchUp = 32;

 private:
  SupervisedEngine(ModuleChain& chain, Supervisor supervisor, const ModuleQuotas& quotas,
                   Clock clock);
  static Result<Supervisor> MakeSupervisor(const ModuleChain& chain, const MonitoringRules& rules,
                                           const ModuleQuotas& quotas, Supervisor::Time now);
  ModuleMask MaskOf(ModuleBits modules) const;
  ModuleBits BitsOf(ModuleMask mask) const;
  void Begin();
  // A request of which a step has been seen.
  struct Seen {
    size_t kind = 0;
    bool was_offered = false;               // to the modules, at its first token
    std::optional<Supervisor::Time> token;  // when its last one came
  };
  Seen& SeenOf(const SequenceTask& task, Supervisor::Time now);
  void Observe(std::span<const SequenceTask> tasks, double seconds, Supervisor::Time now);
  void ObserveModules(Supervisor::Time now);
  void Apply(std::vector<Decision> decisions);
  void Publish();

  ModuleChain& chain_;
  Supervisor supervisor_;
  ModuleQuotas quotas_;
  Clock clock_;
  std::vector<std::string> names_;  // of the supervisor's modules
  struct Counted {
    uint64_t checks = 0;
    uint64_t failures = 0;
  };
  std::vector<Counted> counted_;  // what the supervisor was told
  ShadowSchedule::Step step_;     // the next one
  ModuleMask mask_ = kNoModules;  // of its modules
  std::unordered_map<SequenceKey, Seen> seen_;
  Preloader preloader_;
  SwitchMeter switch_meter_;
  uint64_t warmed_ = 0;
  std::vector<double> latencies_;
  uint64_t steps_ = 0;
  std::deque<Decision> log_;
  uint64_t decisions_made_ = 0;

  mutable std::mutex mutex_;  // guards published_
  ManagerReport published_;
};

}  // namespace tenon
