// Supervisor: decides which modules take part in each step, and withdraws those that save too
// little, compute wrong, make the tail rise or take too much memory; tries them again later.
//
//   min_latency_saving      the last pairs save less than the limit, twice in a row -> disabled
//   max_integrity_failures  share of failed checks above the limit -> one module left
//   p99_rollback            P99 of a full window above this set's baseline -> rolled back
//   module_memory_quota     needs more than its share -> refused; grows -> shrinks or is disabled
//
// Against flapping: every withdrawal doubles the wait before the next trial, a trial is a few
// bursts and not the whole traffic, and the saving that brings a module back lies above the one
// that withdraws it.
//
// Which module a tail belongs to can't be seen in latencies: the one that saves least goes, since
// it is missed least. Baselines belong to a set of modules, so that the loss of one module is not
// taken for the fault of those that stay.
//
// Changes only which modules the next step uses; requests that run go on. Plain data; times are the
// caller's. Threading: one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "accel/manager/decision.h"
#include "accel/manager/gain_meter.h"
#include "accel/manager/integrity_meter.h"
#include "accel/manager/memory_quota.h"
#include "accel/manager/module_bits.h"
#include "accel/manager/monitoring_rules.h"
#include "accel/manager/shadow_schedule.h"
#include "accel/manager/tail_meter.h"
#include "base/result.h"

namespace tenon {

// One module of the chain, in the composed order.
struct SupervisedModule {
  std::string name;
  MemoryRequest memory;
  enum class Start : uint8_t { kActive, kOff } start = Start::kActive;
};

struct SupervisionReport {
  std::string name;
  SupervisionState state = SupervisionState::kOff;
  std::optional<double> saving;
  int64_t integrity_checks = 0;  // of the window
  int64_t integrity_failures = 0;
  uint64_t total_checks = 0;
  uint64_t total_failures = 0;
  MemoryGrant memory;
  int64_t memory_used = 0;
  int64_t withdrawals = 0;  // by rules, since the start
};

class Supervisor {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Fails for rules or quotas outside their range. Modules whose least memory is more than their
  // quota are refused, not an error.
  static Result<Supervisor> Create(const MonitoringRules& rules, int64_t module_memory,
                                   std::vector<SupervisedModule> modules, Time now);

  // Which modules the next step uses. Every call is one step; ObserveStep follows it.
  ShadowSchedule::Step NextStep();
  // What that step cost. `latencies`: seconds since each decided token's predecessor.
  void ObserveStep(const ShadowSchedule::Step& step, const StepCost& cost,
                   std::span<const double> latencies);
  void ObserveIntegrity(size_t module, int64_t checks, int64_t failures);
  void ObserveMemory(size_t module, int64_t bytes, Time now);

  // Applies the rules to what was observed; cheap, meant for every step.
  void Judge(Time now);

  // The operator's word: on is active at once, whatever the rules said before. Fails for a name
  // that is not in the chain and for a module that was refused.
  enum class Switch : uint8_t { kOff, kOn };
  Status Set(std::string_view module, Switch to, Time now);
  // New limits for what is observed from now on.
  Status SetRules(const MonitoringRules& rules);

  const MonitoringRules& rules() const { return rules_; }
  ModuleBits active() const { return InState(SupervisionState::kActive); }
  std::vector<SupervisionReport> reports() const;
  double p99_s() const;
  // Decisions since the last call, oldest first.
  std::vector<Decision> TakeDecisions();

 private:
  struct Entry {
    SupervisedModule module;
    MemoryGrant grant;
    SupervisionState state = SupervisionState::kOff;
    GainMeter gain;
    IntegrityMeter integrity;
    uint64_t judged_pairs = 0;
    int low_streak = 0;   // pairs in a row below the limit
    int high_streak = 0;  // pairs in a row that would bring it back
    int64_t withdrawals = 0;
    int64_t recent_withdrawals = 0;  // what the wait is doubled by
    Time cooled;                     // when the wait is over
    int64_t used = 0;
    bool was_told_to_shrink = false;
  };

  Supervisor(const MonitoringRules& rules, std::vector<SupervisedModule> modules,
             std::vector<MemoryGrant> grants);
  void Start(Time now);
  ModuleBits InState(SupervisionState state) const;
  TailMeter& tail() { return tails_[active().bits()]; }
  void ChangeState(Entry& entry, SupervisionState state);
  void Withdraw(Entry& entry, Decision decision);
  void Decide(Decision decision) { decisions_.push_back(std::move(decision)); }

  void JudgeSaving(Entry& entry, Time now);
  void JudgeTrial(Entry& entry, Time now);
  void JudgeIntegrity(Time now);
  void JudgeTail(Time now);
  void EndWaits(Time now);
  void DegradeTo(std::optional<size_t> kept, size_t failed, Time now);
  std::optional<size_t> BestBut(size_t failed) const;
  std::optional<size_t> LeastSaving() const;

  MonitoringRules rules_;
  std::vector<Entry> entries_;
  ShadowSchedule schedule_;
  std::map<uint32_t, TailMeter> tails_;  // by the bits of the active set
  uint64_t judged_windows_ = 0;
  std::vector<Decision> decisions_;
};

}  // namespace tenon
