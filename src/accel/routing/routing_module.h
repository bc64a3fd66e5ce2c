// The routing module (CITER): a small model writes the tokens it is sure of, the target model,
// which is the large one, the others.
//
// Needs a small model with the target's tokenizer; one with another is refused.
#pragma once

#include <memory>

#include "accel/module.h"
#include "accel/module_context.h"
#include "accel/routing/routing_engine.h"
#include "base/result.h"

namespace tenon {

Result<std::unique_ptr<Module>> CreateRouting(const ModuleContext& context);

// As CreateRouting, with a small model that is there.
class RoutingModule : public Module, public PreAdapter, public PostAggregator {
 public:
  static Result<std::unique_ptr<RoutingModule>> Create(const ModuleContext& context,
                                                       const RoutingOptions& options,
                                                       std::unique_ptr<AuxiliaryModel> small);

  // Module:
  ModuleInfo info() const override;
  PreAdapter& pre_adapter() override { return *this; }
  PostAggregator& post_aggregator() override { return *this; }
  StepEngine& Attach(StepEngine& next, ModuleMask bit) override;
  void Detach() override;
  Status Warm() override;
  ModuleStats stats() const override;
  std::vector<Gauge> gauges() const override;

  // PreAdapter: passes on embeddings and prompts that the small model's cache can't hold.
  Result<Participation> Adapt(const RequestView& request) override;
  void Forget(SequenceKey key) override { (void)key; }

  // PostAggregator: what was decided has a record of who decided it.
  Status Verify(const StepOutcome& outcome) override;

  RoutingEngine& engine() { return *engine_; }

 private:
  RoutingModule(std::string name, std::unique_ptr<AuxiliaryModel> small,
                std::unique_ptr<RouterScorer> scorer, const RoutingOptions& options);

  std::string name_;
  std::unique_ptr<AuxiliaryModel> small_;
  std::unique_ptr<RouterScorer> scorer_;
  std::unique_ptr<RoutingEngine> engine_;
};

}  // namespace tenon
