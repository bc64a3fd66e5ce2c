// ModuleChain: modules in front of the plain engine, as one step engine.
//
// Order: by stage, of one stage by the order of Add; the first is the outermost. Modules come, go
// and are switched between steps; sequences in flight stay, because a module may leave at any
// step's end (step_engine.h). A sequence is given to the modules whose pre-adapter took it, that
// are enabled and that the task allows; a task that wants rows back goes past all of them.
//
// Behind each module, outcomes are verified (sequence_integrity.h, then the module's own
// post-aggregator). What fails is taken back: the KV is cut to where it was, the sampler restarts,
// nothing is decided in this step, and that module never sees the sequence again.
//
// Owns the modules; the plain engine outlives it. Threading: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "accel/module.h"
#include "accel/step_engine.h"
#include "base/result.h"

namespace tenon {

enum class ModuleState : uint8_t { kOff, kOn };

struct ModuleReport {
  ModuleInfo info;
  ModuleState state = ModuleState::kOn;
  ModuleStats stats;
  std::vector<Module::Gauge> gauges;
};

class ModuleChain : public StepEngine {
 public:
  ModuleChain(StepEngine& plain, int64_t vocab_size);
  ~ModuleChain() override;

  // Behind the modules of its stage that are there. kInvalidArgument for a name that is taken, and
  // when there are as many modules as a mask has bits.
  Status Add(std::unique_ptr<Module> module);
  // kNotFound, with the names that are there.
  Status Switch(std::string_view name, ModuleState state);
  Result<std::unique_ptr<Module>> Remove(std::string_view name);
  // Puts a reconfigured module in the place of the one of its name, on or off as that was.
  Status Replace(std::unique_ptr<Module> module);

  Module* Find(std::string_view name);
  ModuleMask enabled() const;
  std::vector<ModuleReport> Report() const;
  // The module nearest to the front that works on the sequence; empty: none does.
  std::string_view OutermostFor(const SequenceTask& task);

  Status Advance(std::span<SequenceTask> tasks) override;
  PendingWork Pending(SequenceTask& task) override;
  void Forget(SequenceKey key) override;
  StepCapacity capacity() const override { return plain_.capacity(); }
  ModuleMask MaskOf(std::string_view name) const override;

 private:
  class Link;
  struct Membership {
    ModuleMask asked = 0;   // modules whose pre-adapter was asked
    ModuleMask joined = 0;  // and said yes
    std::optional<Error> refusal;
  };

  Link* FindLink(std::string_view name) const;
  Error UnknownModule(std::string_view name) const;
  void Relink();
  void Narrow(SequenceTask& task);
  void AskAdapters(const SequenceTask& task, ModuleMask candidates, Membership& membership);
  void Exclude(SequenceKey key, ModuleMask bit);
  void ForgetMemberships(ModuleMask bit);

  StepEngine& plain_;
  int64_t vocab_size_;
  std::vector<std::unique_ptr<Link>> links_;  // outermost first
  StepEngine* front_;                         // the first enabled link, or the plain engine
  std::unordered_map<SequenceKey, Membership> memberships_;
};

}  // namespace tenon
