#include "accel/adaptive/adaptive_module.h"

#include <chrono>

#include "accel/module_options.h"
#include "accel/plain_engine.h"
#include "accel/sequence_integrity.h"
#include "accel/warm_model.h"

namespace tenon {
namespace {

// Runs the module's sequences on the variant and hands the others on: two steps, one after the
// other, where a batch has both kinds.
class VariantEngine : public StepEngine {
 public:
  explicit VariantEngine(AuxiliaryModel& variant) : plain_(variant.runner(), variant.pool()) {}

  void Attach(StepEngine& next, ModuleMask bit) {
    next_ = &next;
    bit_ = bit;
  }

  Status Advance(std::span<SequenceTask> tasks) override {
    std::vector<SequenceTask> mine;
    std::vector<SequenceTask> others;
    for (SequenceTask& task : tasks)
      ((task.modules & bit_) != 0 ? mine : others).push_back(std::move(task));
    TENON_RETURN_IF_ERROR(AdvanceMine(mine));
    if (!others.empty())
      TENON_RETURN_IF_ERROR(next_->Advance(others));
    // Back to their places, with their results.
    size_t from_mine = 0;
    size_t from_others = 0;
    for (SequenceTask& task : tasks) {
      const bool is_mine = from_mine < mine.size() && (task.modules & bit_) != 0;
      task = std::move(is_mine ? mine[from_mine++] : others[from_others++]);
    }
    return {};
  }
  PendingWork Pending(SequenceTask& task) override { return next_->Pending(task); }
  void Forget(SequenceKey key) override { next_->Forget(key); }
  StepCapacity capacity() const override { return next_->capacity(); }

  const ModuleStats& stats() const { return stats_; }

 private:
  Status AdvanceMine(std::span<SequenceTask> mine) {
    if (mine.empty())
      return {};
    const auto start = std::chrono::steady_clock::now();
    for (SequenceTask& task : mine)
      task.sequence->StopSharing();
    TENON_RETURN_IF_ERROR(plain_.Advance(mine));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    stats_.seconds += seconds.count();
    for (const SequenceTask& task : mine) {
      stats_.proposed += task.decided.size();
      stats_.accepted += task.decided.size();
    }
    return {};
  }

  PlainEngine plain_;
  StepEngine* next_ = nullptr;
  ModuleMask bit_ = 0;
  ModuleStats stats_;
};

class AdaptiveModule : public Module, private PreAdapter {
 public:
  AdaptiveModule(std::string name, std::unique_ptr<AuxiliaryModel> variant, int64_t short_prompt)
      : name_(std::move(name)),
        variant_(std::move(variant)),
        short_prompt_(short_prompt),
        engine_(*variant_) {}

  ModuleInfo info() const override {
    return {name_, ModuleStage::kQuantization, variant_->bytes(), variant_->bytes()};
  }
  PreAdapter& pre_adapter() override { return *this; }
  PostAggregator& post_aggregator() override { return aggregator_; }
  StepEngine& Attach(StepEngine& next, ModuleMask bit) override {
    engine_.Attach(next, bit);
    return engine_;
  }
  void Detach() override {}
  Status Warm() override { return WarmModel(variant_->runner()); }
  ModuleStats stats() const override { return engine_.stats(); }

 private:
  Result<Participation> Adapt(const RequestView& request) override {
    const bool is_short = static_cast<int64_t>(request.prompt.size()) < short_prompt_;
    return is_short && request.sampling != nullptr ? Participation::kJoin : Participation::kPass;
  }
  void Forget(SequenceKey) override {}

  std::string name_;
  std::unique_ptr<AuxiliaryModel> variant_;
  int64_t short_prompt_;
  VariantEngine engine_;
  WholeSequences aggregator_;
};

}  // namespace

Result<std::unique_ptr<Module>> CreateAdaptiveModule(const ModuleContext& context) {
  int64_t short_prompt = 128;
  OptionReader reader(context.name, context.options);
  reader.Int("short_prompt", short_prompt, {0, 1 << 24});
  TENON_RETURN_IF_ERROR(reader.Finish());
  if (context.models == nullptr)
    return Unsupported("no variant of the model can be made here", "modules." + context.name);
  ModelRequest request;
  request.weights = DraftWeights::kInt4;
  request.kv = DraftKv::kOfTarget;
  TENON_ASSIGN_OR_RETURN(auto variant, context.models->Open(request));
  return std::unique_ptr<Module>(
      std::make_unique<AdaptiveModule>(context.name, std::move(variant), short_prompt));
}

}  // namespace tenon
