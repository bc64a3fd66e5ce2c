#include "accel/manager/supervised_engine.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace tenon {
namespace {

// Reports of the chain are made anew this often, in steps: they allocate.
constexpr uint64_t kReportEvery = 32;
constexpr size_t kKeptDecisions = 64;

void LogDecision(const Decision& decision) {
  const bool is_withdrawal = decision.action == ModuleAction::kDegraded ||
                             decision.action == ModuleAction::kRolledBack ||
                             decision.action == ModuleAction::kRefused;
  Log(is_withdrawal ? LogLevel::kWarning : LogLevel::kInfo, "module {} {} ({}): {}",
      decision.module, ModuleActionName(decision.action), ModuleRuleName(decision.rule),
      decision.reason);
}

}  // namespace

Result<Supervisor> SupervisedEngine::MakeSupervisor(const ModuleChain& chain,
                                                    const MonitoringRules& rules,
                                                    const ModuleQuotas& quotas,
                                                    Supervisor::Time now) {
  std::vector<SupervisedModule> modules;
  for (const ModuleReport& report : chain.Report()) {
    SupervisedModule module;
    module.name = report.info.name;
    module.memory.wanted = report.info.bytes;
    module.memory.least = report.info.min_bytes;
    const auto share =
        std::ranges::find(quotas.shares, module.name, &std::pair<std::string, double>::first);
    if (quotas.module_memory > 0 && share != quotas.shares.end())
      module.memory.share = share->second;
    else
      module.memory.limit = MemoryLimit::kNone;
    if (report.state == ModuleState::kOff)
      module.start = SupervisedModule::Start::kOff;
    modules.push_back(std::move(module));
  }
  return Supervisor::Create(rules, quotas.module_memory, std::move(modules), now);
}

Result<std::unique_ptr<SupervisedEngine>> SupervisedEngine::Create(ModuleChain& chain,
                                                                   const MonitoringRules& rules,
                                                                   const ModuleQuotas& quotas,
                                                                   Clock clock) {
  TENON_ASSIGN_OR_RETURN(Supervisor supervisor, MakeSupervisor(chain, rules, quotas, clock()));
  std::unique_ptr<SupervisedEngine> engine(
      new SupervisedEngine(chain, std::move(supervisor), quotas, std::move(clock)));
  engine->Begin();
  return engine;
}

SupervisedEngine::SupervisedEngine(ModuleChain& chain, Supervisor supervisor,
                                   const ModuleQuotas& quotas, Clock clock)
    : chain_(chain),
      supervisor_(std::move(supervisor)),
      quotas_(quotas),
      clock_(std::move(clock)) {}

// The supervisor's modules are those of the chain, in its order.
void SupervisedEngine::Begin() {
  names_.clear();
  counted_.clear();
  for (const ModuleReport& report : chain_.Report()) {
    names_.push_back(report.info.name);
    counted_.push_back({report.stats.integrity_checks, report.stats.integrity_failures});
  }
  Apply(supervisor_.TakeDecisions());
  step_ = supervisor_.NextStep();
  mask_ = MaskOf(step_.modules);
  Publish();
}

ModuleMask SupervisedEngine::MaskOf(ModuleBits modules) const {
  ModuleMask mask = kNoModules;
  for (size_t i = 0; i < names_.size(); ++i)
    mask |= modules.Has(i) ? chain_.MaskOf(names_[i]) : kNoModules;
  return mask;
}

ModuleBits SupervisedEngine::BitsOf(ModuleMask mask) const {
  ModuleBits bits;
  for (size_t i = 0; i < names_.size(); ++i) {
    if ((mask & chain_.MaskOf(names_[i])) != kNoModules)
      bits = bits.With(i);
  }
  return bits;
}

PendingWork SupervisedEngine::Pending(SequenceTask& task) {
  task.modules &= mask_;
  return chain_.Pending(task);
}

void SupervisedEngine::Forget(SequenceKey key) {
  seen_.erase(key);
  chain_.Forget(key);
}

Status SupervisedEngine::Advance(std::span<SequenceTask> tasks) {
  for (SequenceTask& task : tasks)
    task.modules &= mask_;
  const Supervisor::Time start = clock_();
  TENON_RETURN_IF_ERROR(chain_.Advance(tasks));
  const Supervisor::Time now = clock_();
  if (names_.empty())
    return {};
  Observe(tasks, std::chrono::duration<double>(now - start).count(), now);
  if (++steps_ % kReportEvery == 0)
    ObserveModules(now);
  supervisor_.Judge(now);
  std::vector<Decision> decisions = supervisor_.TakeDecisions();
  const bool has_news = !decisions.empty();
  Apply(std::move(decisions));
  if (has_news || steps_ % kReportEvery == 0)
    Publish();
  step_ = supervisor_.NextStep();
  mask_ = MaskOf(step_.modules);
  return {};
}

void SupervisedEngine::Observe(std::span<const SequenceTask> tasks, double seconds,
                               Supervisor::Time now) {
  StepCost cost{static_cast<int64_t>(tasks.size()), 0, seconds};
  latencies_.clear();
  bool is_prefill = false;
  for (const SequenceTask& task : tasks) {
    Seen& seen = SeenOf(task, now);
    is_prefill |= task.compute > kMaxCatchUp;
    cost.tokens += static_cast<int64_t>(task.decided.size());
    if (task.decided.empty())
      continue;
    if (!std::exchange(seen.was_offered, true))
      preloader_.Needed(seen.kind, step_.modules, BitsOf(task.modules));
    const auto before = std::exchange(seen.token, now);
    if (before.has_value()) {
      const std::chrono::duration<double> since = now - *before;
      latencies_.push_back(since.count() / static_cast<double>(task.decided.size()));
    }
  }
  preloader_.Used(step_.modules, now);
  if (is_prefill) {
    cost.sequences = 0;  // not measured
    latencies_.clear();
  }
  switch_meter_.Observe(step_.modules, cost);
  supervisor_.ObserveStep(step_, cost, latencies_);
}

SupervisedEngine::Seen& SupervisedEngine::SeenOf(const SequenceTask& task, Supervisor::Time now) {
  const auto [place, is_new] = seen_.try_emplace(task.key);
  if (is_new)
    place->second.kind = preloader_.Arrived(task.prompt_tokens, now);
  return place->second;
}

std::chrono::steady_clock::time_point SupervisedEngine::Idle() {
  const Supervisor::Time now = clock_();
  const ModuleBits due = preloader_.Due(supervisor_.active(), now);
  for (size_t i = 0; i < names_.size(); ++i) {
    Module* const module = due.Has(i) ? chain_.Find(names_[i]) : nullptr;
    if (module == nullptr)
      continue;
    const Status status = module->Warm();
    if (!status.ok())
      Log(LogLevel::kWarning, "module {} was not warmed: {}", names_[i], status.error().ToString());
    ++warmed_;
  }
  preloader_.Used(due, now);
  if (due != ModuleBits())
    Publish();
  return preloader_.NextLook(now);
}

void SupervisedEngine::ObserveModules(Supervisor::Time now) {
  const std::vector<ModuleReport> reports = chain_.Report();
  for (size_t i = 0; i < reports.size() && i < names_.size(); ++i) {
    const ModuleStats& stats = reports[i].stats;
    supervisor_.ObserveIntegrity(
        i, static_cast<int64_t>(stats.integrity_checks - counted_[i].checks),
        static_cast<int64_t>(stats.integrity_failures - counted_[i].failures));
    counted_[i] = {stats.integrity_checks, stats.integrity_failures};
    supervisor_.ObserveMemory(i, reports[i].info.bytes, now);
  }
}

// A module that is off or refused leaves the chain; one that has to shrink is told so.
void SupervisedEngine::Apply(std::vector<Decision> decisions) {
  for (Decision& decision : decisions) {
    LogDecision(decision);
    Module* module = chain_.Find(decision.module);
    if (decision.action == ModuleAction::kShrunk && module != nullptr) {
      const Status status = module->Resize(static_cast<int64_t>(decision.limit));
      if (!status.ok())
        Log(LogLevel::kWarning, "{}", status.error().ToString());
    }
    log_.push_back(std::move(decision));
    ++decisions_made_;
  }
  while (log_.size() > kKeptDecisions)
    log_.pop_front();
  if (decisions.empty())
    return;
  for (const SupervisionReport& report : supervisor_.reports()) {
    const bool is_out =
        report.state == SupervisionState::kOff || report.state == SupervisionState::kRefused;
    const Status status = chain_.Switch(report.name, is_out ? ModuleState::kOff : ModuleState::kOn);
    if (!status.ok())
      Log(LogLevel::kWarning, "{}", status.error().ToString());
  }
}

Status SupervisedEngine::Set(std::string_view module, Supervisor::Switch to) {
  TENON_RETURN_IF_ERROR(supervisor_.Set(module, to, clock_()));
  Apply(supervisor_.TakeDecisions());
  step_ = supervisor_.NextStep();
  mask_ = MaskOf(step_.modules);
  Publish();
  return {};
}

Status SupervisedEngine::SetRules(const MonitoringRules& rules) {
  TENON_RETURN_IF_ERROR(supervisor_.SetRules(rules));
  Publish();
  return {};
}

Status SupervisedEngine::ChainChanged() {
  TENON_ASSIGN_OR_RETURN(supervisor_,
                         MakeSupervisor(chain_, supervisor_.rules(), quotas_, clock_()));
  Begin();
  return {};
}

void SupervisedEngine::Publish() {
  ManagerReport report;
  const std::vector<ModuleReport> modules = chain_.Report();
  const std::vector<SupervisionReport> supervision = supervisor_.reports();
  for (size_t i = 0; i < modules.size() && i < supervision.size(); ++i)
    report.modules.push_back({supervision[i], modules[i]});
  report.decisions.assign(log_.begin(), log_.end());
  report.decisions_made = decisions_made_;
  report.rules = supervisor_.rules();
  report.p99_s = supervisor_.p99_s();
  report.switch_overhead_s = switch_meter_.overhead_s();
  report.switches = switch_meter_.switches();
  report.warmed = warmed_;
  const std::lock_guard lock(mutex_);
  published_ = std::move(report);
}

ManagerReport SupervisedEngine::report() const {
  const std::lock_guard lock(mutex_);
  return published_;
}

}  // namespace tenon
