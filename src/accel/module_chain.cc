#include "accel/module_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "accel/sequence_integrity.h"
#include "base/check.h"
#include "base/log.h"

namespace tenon {

// A module in its place: calls its engine, verifies, counts.
class ModuleChain::Link : public StepEngine {
 public:
  Link(ModuleChain& chain, std::unique_ptr<Module> module, ModuleMask bit)
      : chain_(chain), module_(std::move(module)), bit_(bit), info_(module_->info()) {}

  void Attach(StepEngine& next) { engine_ = &module_->Attach(next, bit_); }
  void Detach() {
    if (engine_ != nullptr)
      module_->Detach();
    engine_ = nullptr;
  }

  Status Advance(std::span<SequenceTask> tasks) override;
  PendingWork Pending(SequenceTask& task) override { return engine_->Pending(task); }
  void Forget(SequenceKey key) override {
    module_->pre_adapter().Forget(key);
    if (engine_ != nullptr)
      engine_->Forget(key);
  }
  StepCapacity capacity() const override { return engine_->capacity(); }
  ModuleReport Report() const;

  Module& module() { return *module_; }
  std::unique_ptr<Module> Release() { return std::move(module_); }
  const std::string& name() const { return info_.name; }
  ModuleStage stage() const { return info_.stage; }
  ModuleMask bit() const { return bit_; }
  ModuleState state = ModuleState::kOn;
  uint64_t passed = 0;

 private:
  struct Before {
    int64_t length = 0;
    uint64_t digest = 0;
  };
  void Verify(SequenceTask& task, const Before& before);
  void TakeBack(SequenceTask& task, const Before& before);

  ModuleChain& chain_;
  std::unique_ptr<Module> module_;
  ModuleMask bit_;
  ModuleInfo info_;
  StepEngine* engine_ = nullptr;
  ModuleStats counted_;  // what the chain counts
  std::vector<Before> before_;
};

Status ModuleChain::Link::Advance(std::span<SequenceTask> tasks) {
  before_.clear();
  uint64_t mine = 0;
  for (const SequenceTask& task : tasks) {
    const uint64_t digest = task.samplers.empty() ? 0 : task.samplers.front()->digest();
    before_.push_back({task.sequence->length(), digest});
    mine += (task.modules & bit_) != 0 ? 1 : 0;
  }
  counted_.steps += mine > 0 ? 1 : 0;
  counted_.sequences += mine;
  TENON_RETURN_IF_ERROR(engine_->Advance(tasks));
  for (size_t i = 0; i < tasks.size(); ++i) {
    if ((tasks[i].modules & bit_) != 0)
      Verify(tasks[i], before_[i]);
  }
  return {};
}

void ModuleChain::Link::Verify(SequenceTask& task, const Before& before) {
  if (task.failure.has_value())
    return;
  const StepOutcome outcome{&task, before.length, before.digest};
  Status status = CheckWhole(outcome, chain_.vocab_size_);
  if (status.ok())
    status = module_->post_aggregator().Verify(outcome);
  ++counted_.integrity_checks;
  counted_.decided += task.decided.size();
  if (status.ok())
    return;
  ++counted_.integrity_failures;
  Log(LogLevel::kWarning, "module {} is off for one sequence, its step was taken back: {}", name(),
      status.error().ToString());
  TakeBack(task, before);
}

// As if the step had not been. What the module knows of the sequence goes, too.
void ModuleChain::Link::TakeBack(SequenceTask& task, const Before& before) {
  const auto prompt = static_cast<size_t>(task.prompt_tokens);
  const auto kept = std::mismatch(task.sequence->tokens().begin(), task.sequence->tokens().end(),
                                  task.tokens.begin(), task.tokens.end());
  const int64_t same = kept.first - task.sequence->tokens().begin();
  task.sequence->Truncate(std::min({same, before.length, task.known() - 1}));
  for (Sampler* sampler : task.samplers)
    sampler->Restart(task.tokens.first(prompt), task.tokens.subspan(prompt));
  task.decided.clear();
  task.forks.clear();
  engine_->Forget(task.key);
  chain_.Exclude(task.key, bit_);
}

ModuleReport ModuleChain::Link::Report() const {
  ModuleReport report{module_->info(), state, module_->stats(), module_->gauges()};
  report.stats.steps = counted_.steps;
  report.stats.sequences = counted_.sequences;
  report.stats.decided = counted_.decided;
  report.stats.passed = passed;
  report.stats.integrity_checks += counted_.integrity_checks;
  report.stats.integrity_failures += counted_.integrity_failures;
  return report;
}

ModuleChain::ModuleChain(StepEngine& plain, int64_t vocab_size)
    : plain_(plain), vocab_size_(vocab_size), front_(&plain) {}

ModuleChain::~ModuleChain() {
  for (const auto& link : links_)
    link->Detach();
}

// ---- The list ----

ModuleChain::Link* ModuleChain::FindLink(std::string_view name) const {
  for (const auto& link : links_) {
    if (link->name() == name)
      return link.get();
  }
  return nullptr;
}

Error ModuleChain::UnknownModule(std::string_view name) const {
  std::string names;
  for (const auto& link : links_)
    names += (names.empty() ? "" : ", ") + link->name();
  return NotFound(fmt::format("no module {}; there are: {}", name, names.empty() ? "none" : names),
                  "module");
}

Status ModuleChain::Add(std::unique_ptr<Module> module) {
  const ModuleInfo info = module->info();
  if (FindLink(info.name) != nullptr)
    return InvalidArgument(fmt::format("{} is there already", info.name), "module");
  ModuleMask used = 0;
  for (const auto& link : links_)
    used |= link->bit();
  if (used == kAllModules)
    return InvalidArgument(fmt::format("there are {} modules already", links_.size()), "module");
  const ModuleMask bit = ModuleMask{1} << std::countr_one(used);
  const auto place =
      std::ranges::find_if(links_, [&](const auto& link) { return link->stage() > info.stage; });
  ForgetMemberships(bit);
  links_.insert(place, std::make_unique<Link>(*this, std::move(module), bit));
  Relink();
  return {};
}

Status ModuleChain::Switch(std::string_view name, ModuleState state) {
  Link* link = FindLink(name);
  if (link == nullptr)
    return UnknownModule(name);
  if (link->state == state)
    return {};
  link->state = state;
  ForgetMemberships(link->bit());
  Relink();
  return {};
}

Result<std::unique_ptr<Module>> ModuleChain::Remove(std::string_view name) {
  Link* link = FindLink(name);
  if (link == nullptr)
    return UnknownModule(name);
  link->state = ModuleState::kOff;
  ForgetMemberships(link->bit());
  Relink();
  std::unique_ptr<Module> module = link->Release();
  std::erase_if(links_, [&](const auto& entry) { return entry.get() == link; });
  return module;
}

Status ModuleChain::Replace(std::unique_ptr<Module> module) {
  const std::string name = module->info().name;
  const Link* link = FindLink(name);
  if (link == nullptr)
    return UnknownModule(name);
  const ModuleState state = link->state;
  TENON_RETURN_IF_ERROR(Remove(name));
  TENON_RETURN_IF_ERROR(Add(std::move(module)));
  return Switch(name, state);
}

// Modules that are off leave first, so that none refers to one that is gone.
void ModuleChain::Relink() {
  for (const auto& link : links_) {
    if (link->state == ModuleState::kOff)
      link->Detach();
  }
  front_ = &plain_;
  for (auto link = links_.rbegin(); link != links_.rend(); ++link) {
    if ((*link)->state == ModuleState::kOff)
      continue;
    (*link)->Attach(*front_);
    front_ = link->get();
  }
}

Module* ModuleChain::Find(std::string_view name) {
  Link* link = FindLink(name);
  return link == nullptr ? nullptr : &link->module();
}

ModuleMask ModuleChain::MaskOf(std::string_view name) const {
  const Link* link = FindLink(name);
  return link == nullptr ? kNoModules : link->bit();
}

ModuleMask ModuleChain::enabled() const {
  ModuleMask mask = 0;
  for (const auto& link : links_)
    mask |= link->state == ModuleState::kOn ? link->bit() : 0;
  return mask;
}

std::vector<ModuleReport> ModuleChain::Report() const {
  std::vector<ModuleReport> reports;
  for (const auto& link : links_)
    reports.push_back(link->Report());
  return reports;
}

// ---- Sequences ----

void ModuleChain::ForgetMemberships(ModuleMask bit) {
  for (auto& [key, membership] : memberships_) {
    membership.asked &= ~bit;
    membership.joined &= ~bit;
  }
}

void ModuleChain::Exclude(SequenceKey key, ModuleMask bit) {
  Membership& membership = memberships_[key];
  membership.asked |= bit;
  membership.joined &= ~bit;
}

void ModuleChain::AskAdapters(const SequenceTask& task, ModuleMask candidates,
                              Membership& membership) {
  RequestView view{task.key, task.tokens.first(static_cast<size_t>(task.prompt_tokens)), nullptr,
                   task.most};
  if (!task.samplers.empty())
    view.sampling = &task.samplers.front()->params();
  for (const auto& link : links_) {
    if ((link->bit() & candidates) == 0)
      continue;
    membership.asked |= link->bit();
    auto answer = link->module().pre_adapter().Adapt(view);
    if (!answer.ok())
      membership.refusal = std::move(answer).error();
    else if (*answer == Participation::kJoin)
      membership.joined |= link->bit();
    else
      ++link->passed;
  }
}

void ModuleChain::Narrow(SequenceTask& task) {
  task.modules &= task.rows == RowKind::kNone ? enabled() : kNoModules;
  if (task.modules == kNoModules)
    return;
  Membership& membership = memberships_[task.key];
  const ModuleMask news = task.modules & ~membership.asked;
  if (news != kNoModules)
    AskAdapters(task, news, membership);
  task.modules &= membership.joined;
}

std::string_view ModuleChain::OutermostFor(const SequenceTask& task) {
  const auto found = std::ranges::find_if(
      links_, [&](const auto& link) { return (link->bit() & task.modules) != 0; });
  return found == links_.end() ? std::string_view() : (*found)->name();
}

PendingWork ModuleChain::Pending(SequenceTask& task) {
  Narrow(task);
  return front_->Pending(task);
}

Status ModuleChain::Advance(std::span<SequenceTask> tasks) {
  for (SequenceTask& task : tasks)
    Narrow(task);
  TENON_RETURN_IF_ERROR(front_->Advance(tasks));
  for (SequenceTask& task : tasks) {
    const auto found = memberships_.find(task.key);
    if (found != memberships_.end() && found->second.refusal.has_value())
      task.failure = found->second.refusal;
  }
  return {};
}

void ModuleChain::Forget(SequenceKey key) {
  memberships_.erase(key);
  for (const auto& link : links_)
    link->Forget(key);
  plain_.Forget(key);
}

}  // namespace tenon
