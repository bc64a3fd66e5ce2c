#include "accel/manager/supervisor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

// One pair below the limit may be chance; two in a row, each a median of several, are not.
constexpr int kLowStreak = 2;
// To come back takes more than to stay.
constexpr int kHighStreak = 3;
// The wait is doubled this often at most: it has reached its longest before.
constexpr int64_t kMaxDoublings = 20;

double Percent(double share) {
  return share * 100.0;
}

}  // namespace

Result<Supervisor> Supervisor::Create(const MonitoringRules& rules, int64_t module_memory,
                                      std::vector<SupervisedModule> modules, Time now) {
  TENON_RETURN_IF_ERROR(CheckRules(rules));
  if (modules.size() > ModuleBits::kMaxModules)
    return InvalidArgument(
        fmt::format("found {}, expected at most {}", modules.size(), ModuleBits::kMaxModules),
        "modules");
  std::vector<MemoryRequest> requests;
  for (const SupervisedModule& module : modules) {
    requests.push_back(module.memory);
    requests.back().module = module.name;
  }
  TENON_ASSIGN_OR_RETURN(std::vector<MemoryGrant> grants, GrantMemory(module_memory, requests));
  Supervisor supervisor(rules, std::move(modules), std::move(grants));
  supervisor.Start(now);
  return supervisor;
}

Supervisor::Supervisor(const MonitoringRules& rules, std::vector<SupervisedModule> modules,
                       std::vector<MemoryGrant> grants)
    : rules_(rules), schedule_(rules.shadow_share) {
  for (size_t i = 0; i < modules.size(); ++i) {
    entries_.emplace_back();
    entries_.back().module = std::move(modules[i]);
    entries_.back().grant = grants[i];
  }
}

void Supervisor::Start(Time now) {
  for (Entry& entry : entries_) {
    const MemoryRequest& memory = entry.module.memory;
    const auto limit = static_cast<double>(entry.grant.limit);
    Decision decision{now, entry.module.name, {}, ModuleRule::kQuota, 0.0, limit, {}};
    if (entry.grant.verdict == MemoryVerdict::kRefused) {
      entry.state = SupervisionState::kRefused;
      decision.action = ModuleAction::kRefused;
      decision.measured = static_cast<double>(memory.least);
      decision.reason =
          fmt::format("needs at least {} bytes, its quota is {}", memory.least, entry.grant.limit);
      Decide(std::move(decision));
      continue;
    }
    if (entry.grant.verdict == MemoryVerdict::kShrunk) {
      decision.action = ModuleAction::kShrunk;
      decision.measured = static_cast<double>(memory.wanted);
      decision.reason =
          fmt::format("wants {} bytes, its quota is {}", memory.wanted, entry.grant.limit);
      Decide(std::move(decision));
    }
    if (entry.module.start == SupervisedModule::Start::kActive)
      entry.state = SupervisionState::kActive;
  }
}

ModuleBits Supervisor::InState(SupervisionState state) const {
  ModuleBits set;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].state == state)
      set = set.With(i);
  }
  return set;
}

ShadowSchedule::Step Supervisor::NextStep() {
  return schedule_.Next(active(), InState(SupervisionState::kTrial));
}

void Supervisor::ObserveStep(const ShadowSchedule::Step& step, const StepCost& cost,
                             std::span<const double> latencies) {
  if (step.use == ShadowSchedule::Step::Use::kMeasure && step.turn.has_value()) {
    const bool has = step.modules.Has(*step.turn);
    entries_[*step.turn].gain.Observe(has ? GainMeter::Side::kWith : GainMeter::Side::kWithout,
                                      cost);
  }
  if (step.turn.has_value() && step.round == ShadowSchedule::Step::Round::kEnds)
    entries_[*step.turn].gain.EndRound();
  if (step.subject.has_value())
    return;  // latencies of a burst are not those of the set
  for (const double seconds : latencies)
    tail().Observe(cost.sequences, seconds);
}

void Supervisor::ObserveIntegrity(size_t module, int64_t checks, int64_t failures) {
  if (module < entries_.size())
    entries_[module].integrity.Observe(checks, std::clamp<int64_t>(failures, 0, checks));
}

void Supervisor::ObserveMemory(size_t module, int64_t bytes, Time now) {
  Entry& entry = entries_[module];
  entry.used = bytes;
  if (bytes <= entry.grant.limit) {
    entry.was_told_to_shrink = false;
    return;
  }
  if (entry.state == SupervisionState::kOff || entry.state == SupervisionState::kRefused)
    return;
  Decision decision{now,
                    entry.module.name,
                    ModuleAction::kShrunk,
                    ModuleRule::kQuota,
                    static_cast<double>(bytes),
                    static_cast<double>(entry.grant.limit),
                    fmt::format("uses {} bytes, its quota is {}", bytes, entry.grant.limit)};
  if (!entry.was_told_to_shrink) {
    entry.was_told_to_shrink = true;
    Decide(std::move(decision));
    return;
  }
  decision.action = ModuleAction::kDisabled;
  decision.reason += ", and it did not shrink";
  Withdraw(entry, std::move(decision));
  entry.state = SupervisionState::kRefused;
}

// What the gain of the others was compared with, and whose tail it was, has changed.
void Supervisor::ChangeState(Entry& entry, SupervisionState state) {
  tail().Interrupt();
  entry.state = state;
  entry.low_streak = 0;
  entry.high_streak = 0;
  for (Entry& other : entries_)
    other.gain.Reset();
  tail().Interrupt();
  judged_windows_ = tail().windows();
}

void Supervisor::Withdraw(Entry& entry, Decision decision) {
  ++entry.withdrawals;
  const int64_t doublings = std::min(entry.recent_withdrawals++, kMaxDoublings);
  const auto wait = rules_.first_cool_down * (int64_t{1} << doublings);
  entry.cooled = decision.time + std::min(wait, rules_.longest_cool_down);
  entry.integrity.Reset();
  ChangeState(entry, SupervisionState::kCooling);
  Decide(std::move(decision));
}

void Supervisor::Judge(Time now) {
  JudgeIntegrity(now);
  JudgeTail(now);
  for (Entry& entry : entries_) {
    if (entry.gain.pairs() == entry.judged_pairs)
      continue;
    entry.judged_pairs = entry.gain.pairs();
    if (entry.state == SupervisionState::kActive)
      JudgeSaving(entry, now);
    else if (entry.state == SupervisionState::kTrial)
      JudgeTrial(entry, now);
  }
  EndWaits(now);
}

void Supervisor::JudgeSaving(Entry& entry, Time now) {
  const std::optional<double> saving = entry.gain.Saving();
  if (!saving.has_value())
    return;
  if (*saving >= rules_.min_latency_saving) {
    entry.low_streak = 0;
    // It has proved itself: an old withdrawal no longer counts against it.
    if (++entry.high_streak > static_cast<int>(GainMeter::kMaxPairs))
      entry.recent_withdrawals = 0;
    return;
  }
  entry.high_streak = 0;
  if (++entry.low_streak < kLowStreak)
    return;
  Withdraw(entry, {now, entry.module.name, ModuleAction::kDisabled, ModuleRule::kSaving, *saving,
                   rules_.min_latency_saving,
                   fmt::format("saves {:.1f}% of the time per token, at least {:.1f}% is wanted",
                               Percent(*saving), Percent(rules_.min_latency_saving))});
}

void Supervisor::JudgeTrial(Entry& entry, Time now) {
  const std::optional<double> saving = entry.gain.Saving();
  const double wanted = rules_.min_latency_saving + rules_.return_margin;
  if (!saving.has_value())
    return;
  const bool is_whole = !entry.integrity.Exceeds(rules_.max_integrity_failures);
  entry.high_streak = *saving >= wanted && is_whole ? entry.high_streak + 1 : 0;
  if (entry.high_streak < kHighStreak)
    return;
  const std::string name = entry.module.name;
  ChangeState(entry, SupervisionState::kActive);
  Decide({now, name, ModuleAction::kReturned, ModuleRule::kSaving, *saving, wanted,
          fmt::format("saves {:.1f}% of the time per token on trial, at least {:.1f}% is wanted",
                      Percent(*saving), Percent(wanted))});
}

// The active module that saves most; what failed is out of the question.
std::optional<size_t> Supervisor::BestBut(size_t failed) const {
  std::optional<size_t> best;
  double best_saving = 0.0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (i == failed || entries_[i].state != SupervisionState::kActive)
      continue;
    const double saving = entries_[i].gain.Saving().value_or(0.0);
    if (!best.has_value() || saving > best_saving) {
      best = i;
      best_saving = saving;
    }
  }
  return best;
}

void Supervisor::JudgeIntegrity(Time now) {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].integrity.Exceeds(rules_.max_integrity_failures) &&
        entries_[i].state == SupervisionState::kActive)
      DegradeTo(BestBut(i), i, now);
  }
}

void Supervisor::DegradeTo(std::optional<size_t> kept, size_t failed, Time now) {
  const IntegrityMeter& meter = entries_[failed].integrity;
  const double share = meter.FailureShare();
  const std::string cause = fmt::format(
      "{} of {} integrity checks of {} failed, at most {:.2f}% may", meter.failures(),
      meter.checks(), entries_[failed].module.name, Percent(rules_.max_integrity_failures));
  const ModuleAction action = kept.has_value() ? ModuleAction::kDegraded : ModuleAction::kDisabled;
  const std::string rest =
      kept.has_value() ? fmt::format("; only {} stays", entries_[*kept].module.name) : "";
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (i == kept || entries_[i].state != SupervisionState::kActive)
      continue;
    Withdraw(entries_[i], {now, entries_[i].module.name, action, ModuleRule::kIntegrity, share,
                           rules_.max_integrity_failures, cause + rest});
  }
}

std::optional<size_t> Supervisor::LeastSaving() const {
  std::optional<size_t> least;
  double least_saving = 0.0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].state != SupervisionState::kActive)
      continue;
    const double saving = entries_[i].gain.Saving().value_or(0.0);
    if (!least.has_value() || saving <= least_saving) {
      least = i;
      least_saving = saving;
    }
  }
  return least;
}

void Supervisor::JudgeTail(Time now) {
  TailMeter& meter = tail();
  if (meter.windows() == judged_windows_)
    return;
  judged_windows_ = meter.windows();
  const std::optional<size_t> least = LeastSaving();
  const double rise = meter.Rise().value_or(0.0);
  if (!least.has_value() || rise <= rules_.p99_rollback)
    return;
  Entry& entry = entries_[*least];
  Withdraw(entry,
           {now, entry.module.name, ModuleAction::kRolledBack, ModuleRule::kTail, rise,
            rules_.p99_rollback,
            fmt::format("the P99 latency of a token rose by {:.0f}% to {:.1f} ms, at most {:.0f}% "
                        "over the baseline is allowed",
                        Percent(rise), meter.p99_s() * 1e3, Percent(rules_.p99_rollback))});
}

void Supervisor::EndWaits(Time now) {
  for (Entry& entry : entries_) {
    if (entry.state != SupervisionState::kCooling || now < entry.cooled ||
        rules_.shadow_share == 0.0)
      continue;
    entry.state = SupervisionState::kTrial;
    entry.high_streak = 0;
    entry.gain.Reset();
    Decide({now, entry.module.name, ModuleAction::kOnTrial, ModuleRule::kSaving, 0.0,
            rules_.min_latency_saving + rules_.return_margin,
            "the wait after its withdrawal is over"});
  }
}

Status Supervisor::Set(std::string_view module, Switch to, Time now) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.module.name == module; });
  if (found == entries_.end())
    return NotFound(fmt::format("no module '{}' in the chain", module), "module");
  if (to == Switch::kOn && found->grant.verdict == MemoryVerdict::kRefused) {
    return MakeError(ErrorCode::kResourceExhausted,
                     fmt::format("needs at least {} bytes, its quota is {}",
                                 found->module.memory.least, found->grant.limit),
                     fmt::format("module_memory_quota.{}", module));
  }
  const SupervisionState state =
      to == Switch::kOn ? SupervisionState::kActive : SupervisionState::kOff;
  if (found->state == state)
    return {};
  found->recent_withdrawals = 0;
  found->integrity.Reset();
  ChangeState(*found, state);
  Decide({now, found->module.name,
          to == Switch::kOn ? ModuleAction::kEnabled : ModuleAction::kDisabled,
          ModuleRule::kOperator, 0.0, 0.0, "asked for"});
  return {};
}

Status Supervisor::SetRules(const MonitoringRules& rules) {
  TENON_RETURN_IF_ERROR(CheckRules(rules));
  if (rules.shadow_share != rules_.shadow_share)
    schedule_ = ShadowSchedule(rules.shadow_share);
  rules_ = rules;
  return {};
}

std::vector<SupervisionReport> Supervisor::reports() const {
  std::vector<SupervisionReport> reports;
  for (const Entry& entry : entries_) {
    reports.push_back({entry.module.name, entry.state, entry.gain.Saving(),
                       entry.integrity.checks(), entry.integrity.failures(),
                       entry.integrity.total_checks(), entry.integrity.total_failures(),
                       entry.grant, entry.used, entry.withdrawals});
  }
  return reports;
}

double Supervisor::p99_s() const {
  const auto found = tails_.find(active().bits());
  return found == tails_.end() ? 0.0 : found->second.p99_s();
}

std::vector<Decision> Supervisor::TakeDecisions() {
  return std::exchange(decisions_, {});
}

}  // namespace tenon
