#include "accel/routing/routing_module.h"

#include <fmt/format.h>

#include <utility>

#include "accel/routing/router_file.h"
#include "accel/warm_model.h"
#include "hal/kernel_registry.h"

namespace tenon {
namespace {

Result<std::unique_ptr<RouterScorer>> LoadScorer(const ModuleContext& context,
                                                 const RoutingOptions& options,
                                                 AuxiliaryModel& small) {
  if (options.score != RouteScore::kTrained)
    return std::unique_ptr<RouterScorer>();
  TENON_ASSIGN_OR_RETURN(RouterFile file, ReadRouterFile(options.router));
  const auto wrong = [&](std::string_view which) {
    return InvalidArgument(fmt::format("was trained for another {} model", which), options.router);
  };
  if (file.small_fingerprint != small.fingerprint())
    return wrong("small");
  if (file.large_fingerprint != context.target_fingerprint)
    return wrong("large");
  if (file.net.hidden_size() != small.runner().hidden_size()) {
    return InvalidArgument(fmt::format("hidden size {}, the small model's is {}",
                                       file.net.hidden_size(), small.runner().hidden_size()),
                           options.router);
  }
  TENON_ASSIGN_OR_RETURN(const KernelSet kernels, ResolveKernelSetFromEnvironment());
  return std::make_unique<RouterScorer>(std::move(file.net), kernels);
}

}  // namespace

Result<std::unique_ptr<Module>> CreateRouting(const ModuleContext& context) {
  TENON_ASSIGN_OR_RETURN(const RoutingOptions options,
                         ReadRoutingOptions(context.name, context.options));
  if (context.models == nullptr)
    return Unsupported("no further models can be loaded here", "modules." + context.name);
  TENON_ASSIGN_OR_RETURN(auto small,
                         context.models->OpenNamed({options.small, options.context_tokens},
                                                   "modules." + context.name + ".small"));
  TENON_ASSIGN_OR_RETURN(auto module, RoutingModule::Create(context, options, std::move(small)));
  return std::unique_ptr<Module>(std::move(module));
}

Result<std::unique_ptr<RoutingModule>> RoutingModule::Create(
    const ModuleContext& context, const RoutingOptions& options,
    std::unique_ptr<AuxiliaryModel> small) {
  const std::string place = fmt::format("modules.{}.small", context.name);
  if (context.tokenizer != nullptr)
    TENON_RETURN_IF_ERROR(CheckSameTokenizer(*context.tokenizer, small->tokenizer()));
  if (small->runner().vocab_size() != context.target->vocab_size()) {
    return Unsupported(fmt::format("{} logits, the large model has {}",
                                   small->runner().vocab_size(), context.target->vocab_size()),
                       place);
  }
  if (context.quota_bytes > 0 && small->bytes() > context.quota_bytes) {
    return MakeError(ErrorCode::kResourceExhausted,
                     fmt::format("the small model needs {} bytes, the module's quota is {}",
                                 small->bytes(), context.quota_bytes),
                     place);
  }
  TENON_ASSIGN_OR_RETURN(auto scorer, LoadScorer(context, options, *small));
  return std::unique_ptr<RoutingModule>(
      new RoutingModule(context.name, std::move(small), std::move(scorer), options));
}

RoutingModule::RoutingModule(std::string name, std::unique_ptr<AuxiliaryModel> small,
                             std::unique_ptr<RouterScorer> scorer, const RoutingOptions& options)
    : name_(std::move(name)), small_(std::move(small)), scorer_(std::move(scorer)) {
  engine_ =
      std::make_unique<RoutingEngine>(small_->runner(), small_->pool(), scorer_.get(), options);
}

ModuleInfo RoutingModule::info() const {
  const int64_t bytes = small_->bytes() + (scorer_ ? scorer_->bytes() : 0);
  return {name_, ModuleStage::kRouting, bytes, bytes};
}

StepEngine& RoutingModule::Attach(StepEngine& next, ModuleMask bit) {
  engine_->Attach(next, bit);
  return *engine_;
}

void RoutingModule::Detach() {
  engine_->Clear();
}

Status RoutingModule::Warm() {
  return WarmModel(small_->runner());
}

Result<Participation> RoutingModule::Adapt(const RequestView& request) {
  const int64_t room = int64_t{small_->runner().kv_config().blocks} * kKvBlockTokens;
  const bool fits = static_cast<int64_t>(request.prompt.size()) < room;
  return request.sampling != nullptr && fits ? Participation::kJoin : Participation::kPass;
}

Status RoutingModule::Verify(const StepOutcome& outcome) {
  const auto records = engine_->Audit(outcome.task->key);
  if (records.size() >= outcome.task->decided.size())
    return {};
  return MakeError(ErrorCode::kInternal,
                   fmt::format("{} tokens decided, {} have a record of who decided them",
                               outcome.task->decided.size(), records.size()),
                   "routing");
}

ModuleStats RoutingModule::stats() const {
  const RoutingCounters& counters = engine_->counters();
  ModuleStats stats;
  stats.proposed = counters.offered;
  stats.accepted = counters.small_tokens;
  stats.integrity_checks = counters.replays;
  stats.integrity_failures = counters.replay_failures;
  stats.seconds = counters.seconds;
  return stats;
}

std::vector<Module::Gauge> RoutingModule::gauges() const {
  const RoutingCounters& counters = engine_->counters();
  const auto share = [](uint64_t part, uint64_t all) {
    return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 0.0;
  };
  const uint64_t tokens = counters.small_tokens + counters.large_tokens;
  const DecisionCache& cache = engine_->cache();
  return {{"large_share", share(counters.large_tokens, tokens)},
          {"small_tokens", static_cast<double>(counters.small_tokens)},
          {"large_tokens", static_cast<double>(counters.large_tokens)},
          {"switches", static_cast<double>(counters.switches)},
          {"caught_up_tokens", static_cast<double>(counters.caught_up)},
          {"preloaded_tokens", static_cast<double>(counters.preloaded)},
          {"largest_lag_tokens", static_cast<double>(counters.largest_lag)},
          {"small_steps_skipped", static_cast<double>(counters.skipped)},
          {"cache_hit_share", share(cache.hits(), cache.lookups())},
          {"cache_entries", static_cast<double>(cache.size())},
          {"handed_over_for_memory", static_cast<double>(counters.small_kv_full)},
          {"overhead_seconds", counters.overhead_s}};
}

}  // namespace tenon
