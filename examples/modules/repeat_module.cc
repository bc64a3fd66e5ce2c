#include "modules/repeat_module.h"

#include "accel/module_options.h"
#include "accel/sequence_integrity.h"

namespace tenon {
namespace {

// The execution engine: puts guesses into the tasks that are its own, then calls the next one.
class RepeatEngine : public StepEngine {
 public:
  explicit RepeatEngine(int64_t guesses) : guesses_(guesses) {}

  void Attach(StepEngine& next, ModuleMask bit) {
    next_ = &next;
    bit_ = bit;
  }

  Status Advance(std::span<SequenceTask> tasks) override {
    for (SequenceTask& task : tasks) {
      // Guesses of a module further out are left alone.
      if ((task.modules & bit_) != 0 && task.guesses.tokens.empty())
        task.guesses.tokens.assign(static_cast<size_t>(guesses_), task.tokens.back());
    }
    TENON_RETURN_IF_ERROR(next_->Advance(tasks));
    for (const SequenceTask& task : tasks) {
      if ((task.modules & bit_) == 0)
        continue;
      stats_.proposed += static_cast<uint64_t>(task.computed - task.compute);
      stats_.accepted += static_cast<uint64_t>(task.accepted);
    }
    return {};
  }
  PendingWork Pending(SequenceTask& task) override { return next_->Pending(task); }
  void Forget(SequenceKey) override {}  // it keeps nothing
  StepCapacity capacity() const override { return next_->capacity(); }

  const ModuleStats& stats() const { return stats_; }

 private:
  int64_t guesses_;
  StepEngine* next_ = nullptr;
  ModuleMask bit_ = 0;
  ModuleStats stats_;
};

// The module and its pre-adapter, which has nothing to remember.
class RepeatModule : public Module, private PreAdapter {
 public:
  RepeatModule(std::string name, int64_t guesses) : name_(std::move(name)), engine_(guesses) {}

  ModuleInfo info() const override { return {name_, ModuleStage::kSpeculation, 0, 0}; }
  PreAdapter& pre_adapter() override { return *this; }
  PostAggregator& post_aggregator() override { return aggregator_; }
  StepEngine& Attach(StepEngine& next, ModuleMask bit) override {
    engine_.Attach(next, bit);
    return engine_;
  }
  void Detach() override {}
  ModuleStats stats() const override { return engine_.stats(); }

 private:
  // An embedding draws no tokens.
  Result<Participation> Adapt(const RequestView& request) override {
    return request.sampling == nullptr ? Participation::kPass : Participation::kJoin;
  }
  void Forget(SequenceKey) override {}

  std::string name_;
  RepeatEngine engine_;
  WholeSequences aggregator_;
};

}  // namespace

Result<std::unique_ptr<Module>> CreateRepeatModule(const ModuleContext& context) {
  int64_t guesses = 2;
  OptionReader reader(context.name, context.options);
  reader.Int("guesses", guesses, {1, 8});
  TENON_RETURN_IF_ERROR(reader.Finish());
  return std::unique_ptr<Module>(std::make_unique<RepeatModule>(context.name, guesses));
}

}  // namespace tenon
