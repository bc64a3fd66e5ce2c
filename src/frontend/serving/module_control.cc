#include "frontend/serving/module_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <string_view>
#include <utility>

#include "accel/module_list.h"
#include "accel/module_options.h"
#include "base/log.h"

namespace tenon {
namespace {

// What a quota may be named besides a module: parts of a server whose memory is reserved elsewhere.
constexpr std::string_view kReservedElsewhere[] = {"quantization", "phase_split",
                                                   "phase_splitting"};

bool IsReservedElsewhere(std::string_view name) {
  return std::ranges::find(kReservedElsewhere, name) != std::end(kReservedElsewhere);
}

}  // namespace

ModuleControl::ModuleControl(ServingEngine& serving, ModuleChain& chain,
                             SupervisedEngine& supervised, Rebuild rebuild)
    : serving_(serving), chain_(chain), supervised_(supervised), rebuild_(std::move(rebuild)) {}

// The action owns what it needs: when the caller has lost patience it may still run.
Status ModuleControl::OnEngine(std::function<Status()> action) {
  auto promise = std::make_shared<std::promise<Status>>();
  std::future<Status> done = promise->get_future();
  serving_.Post([action = std::move(action), promise] { promise->set_value(action()); });
  if (done.wait_for(kPatience) == std::future_status::ready)
    return done.get();
  return MakeError(ErrorCode::kCancelled,
                   fmt::format("the engine did not come to it within {} s", kPatience.count()),
                   "modules");
}

Status ModuleControl::Set(std::string_view module, Supervisor::Switch to) {
  return OnEngine([this, name = std::string(module), to] { return supervised_.Set(name, to); });
}

Status ModuleControl::SetMonitoring(const nlohmann::json& monitoring, const MonitoringRules& over) {
  TENON_ASSIGN_OR_RETURN(const MonitoringRules rules, ReadMonitoring(monitoring, over));
  return OnEngine([this, rules] { return supervised_.SetRules(rules); });
}

Status ModuleControl::Reconfigure(std::string_view module, nlohmann::json options) {
  if (!rebuild_)
    return Unsupported("the options of modules can't be changed here", std::string(module));
  const std::lock_guard lock(rebuilding_);
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<Module> made, rebuild_(module, std::move(options)));
  // Shared only because an action has to be copyable.
  auto holder = std::make_shared<std::unique_ptr<Module>>(std::move(made));
  return OnEngine([this, holder]() -> Status {
    TENON_RETURN_IF_ERROR(chain_.Replace(std::move(*holder)));
    return supervised_.ChainChanged();
  });
}

Result<MonitoringRules> ReadMonitoring(const nlohmann::json& monitoring, MonitoringRules rules) {
  OptionReader reader(OptionReader::TopLevel{"monitoring"}, monitoring);
  double cool_down_s = std::chrono::duration<double>(rules.first_cool_down).count();
  reader.Share("min_latency_saving", rules.min_latency_saving);
  reader.Share("max_integrity_failures", rules.max_integrity_failures);
  reader.Share("p99_rollback", rules.p99_rollback);
  reader.Share("shadow_share", rules.shadow_share);
  reader.Share("return_margin", rules.return_margin);
  reader.Number("cool_down_s", cool_down_s, {0.0, 86'400.0});
  TENON_RETURN_IF_ERROR(reader.Finish());
  rules.first_cool_down = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(cool_down_s));
  rules.longest_cool_down = std::max(rules.longest_cool_down, rules.first_cool_down);
  TENON_RETURN_IF_ERROR(CheckRules(rules));
  return rules;
}

Result<ModuleQuotas> ReadQuotas(const nlohmann::json& quotas, int64_t module_memory) {
  ModuleQuotas result;
  result.module_memory = module_memory;
  if (!quotas.is_object() && !quotas.is_null())
    return InvalidArgument("found no shares by module name", "module_memory_quota");
  double sum = 0.0;
  OptionReader reader(OptionReader::TopLevel{"module_memory_quota"}, quotas);
  for (const auto& [name, value] : quotas.items()) {
    if (!IsKnownModule(name) && !IsReservedElsewhere(name)) {
      return InvalidArgument(fmt::format("no such module; there are: {}", KnownModuleNames()),
                             "module_memory_quota." + name);
    }
    double share = 0.0;
    reader.Share(name, share);
    sum += share;
    result.shares.emplace_back(name, share);
  }
  TENON_RETURN_IF_ERROR(reader.Finish());
  constexpr double kRounding = 1e-6;
  if (sum > 1.0 + kRounding) {
    return InvalidArgument(
        fmt::format("the shares sum to {:.1f}%, expected 100% or less", sum * 100.0),
        "module_memory_quota");
  }
  return result;
}

Status CheckModuleConfig(const ModuleConfig& config) {
  const auto monitoring = ReadMonitoring(config.monitoring, {});
  if (!monitoring.ok())
    return Placed(monitoring.error(), config.monitoring_where);
  const auto quotas = ReadQuotas(config.memory_quota, 0);
  if (!quotas.ok())
    return Placed(quotas.error(), config.memory_quota_where);
  for (const auto& [name, share] : quotas->shares) {
    if (IsReservedElsewhere(name))
      Log(LogLevel::kWarning, "module_memory_quota.{}: counts towards the sum, and limits nothing",
          name);
  }
  return {};
}

}  // namespace tenon
