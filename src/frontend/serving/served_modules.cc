#include "frontend/serving/served_modules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "accel/manager/composition.h"
#include "base/log.h"

namespace tenon {
namespace {

int64_t QuotaBytes(const ModuleQuotas& quotas, std::string_view module) {
  for (const auto& [name, share] : quotas.shares) {
    if (name == module)
      return static_cast<int64_t>(share * static_cast<double>(quotas.module_memory));
  }
  return 0;  // no limit
}

// Adds the modules that fit their quotas.
Status AddModules(ModuleSet& set, const ModuleConfig& config, const ModuleQuotas& quotas) {
  for (const ModuleConfig::Entry& entry : config.modules) {
    auto module = set.Make(entry, QuotaBytes(quotas, entry.name));
    if (!module.ok() && module.error().code == ErrorCode::kResourceExhausted) {
      Log(LogLevel::kWarning, "module {} refused (module_memory_quota): {}", entry.name,
          module.error().ToString());
      continue;
    }
    if (!module.ok())
      return std::move(module).error();
    TENON_RETURN_IF_ERROR(set.chain().Add(std::move(*module)));
  }
  std::vector<ModuleInfo> infos;
  for (const ModuleReport& report : set.chain().Report())
    infos.push_back(report.info);
  return CheckComposition(infos);
}

const ModuleConfig::Entry* FindEntry(const ModuleConfig& config, std::string_view name) {
  const auto found = std::ranges::find(config.modules, name, &ModuleConfig::Entry::name);
  return found == config.modules.end() ? nullptr : &*found;
}

}  // namespace

Result<std::unique_ptr<ServedModules>> ServedModules::Create(Model& model,
                                                             const ModuleConfig& config) {
  if (config.modules.empty())
    return std::unique_ptr<ServedModules>();
  TENON_ASSIGN_OR_RETURN(const MonitoringRules rules, ReadMonitoring(config.monitoring, {}));
  // What is left beside the model that is served.
  TENON_ASSIGN_OR_RETURN(const ModuleQuotas quotas,
                         ReadQuotas(config.memory_quota, AvailableMemoryBytes()));
  std::unique_ptr<ServedModules> served(new ServedModules());
  TENON_ASSIGN_OR_RETURN(served->set_, ModuleSet::Create(model, ModuleConfig()));
  TENON_RETURN_IF_ERROR(AddModules(*served->set_, config, quotas));
  TENON_ASSIGN_OR_RETURN(served->supervised_,
                         SupervisedEngine::Create(served->set_->chain(), rules, quotas));
  return served;
}

std::unique_ptr<ModuleControl> ServedModules::Control(ServingEngine& engine) {
  return std::make_unique<ModuleControl>(
      engine, set_->chain(), *supervised_, [this](std::string_view name, nlohmann::json options) {
        return set_->Make({std::string(name), std::move(options)}, 0);
      });
}

Status ApplyModuleConfig(ModuleControl& control, const ModuleConfig& before,
                         const ModuleConfig& now) {
  Status first;
  const auto take = [&](Status status) {
    if (first.ok())
      first = std::move(status);
  };
  if (now.monitoring != before.monitoring)
    take(control.SetMonitoring(now.monitoring, MonitoringRules()));
  for (const ModuleConfig::Entry& entry : now.modules) {
    const ModuleConfig::Entry* const old = FindEntry(before, entry.name);
    if (old != nullptr && old->options != entry.options)
      take(control.Reconfigure(entry.name, entry.options));
    if (old == nullptr)
      take(control.Set(entry.name, Supervisor::Switch::kOn));
  }
  for (const ModuleConfig::Entry& entry : before.modules) {
    if (FindEntry(now, entry.name) == nullptr)
      take(control.Set(entry.name, Supervisor::Switch::kOff));
  }
  return first;
}

std::string RestartOnlyChanges(const ModuleConfig& started, const ModuleConfig& now) {
  std::vector<std::string_view> names;
  if (now.scheduling != started.scheduling)
    names.emplace_back("scheduling");
  if (now.kv_cache != started.kv_cache)
    names.emplace_back("kv_cache");
  if (now.recomputation != started.recomputation)
    names.emplace_back("quantization.recomputation");
  if (now.memory_quota != started.memory_quota)
    names.emplace_back("module_memory_quota");
  return fmt::format("{}", fmt::join(names, ", "));
}

ConfigFollower::ConfigFollower(std::filesystem::path path, ModuleControl& control,
                               ModuleConfig applied)
    : path_(std::move(path)), control_(control), started_(applied), applied_(std::move(applied)) {
  std::error_code code;
  seen_ = std::filesystem::last_write_time(path_, code);
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

ConfigFollower::~ConfigFollower() {
  thread_.request_stop();
  wake_.notify_all();
}

void ConfigFollower::Run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    wake_.wait_for(lock, stop, kPeriod, [] { return false; });
    if (!stop.stop_requested())
      Look();
  }
}

void ConfigFollower::Look() {
  std::error_code code;
  const auto written = std::filesystem::last_write_time(path_, code);
  if (code && !is_gone_) {
    Log(LogLevel::kWarning, "{} can't be read any more ({}); the configuration stays as it was",
        path_.string(), code.message());
  }
  is_gone_ = static_cast<bool>(code);
  if (code || written == seen_)
    return;
  seen_ = written;
  Reload();
}

void ConfigFollower::Reload() {
  const auto config = ReadModuleConfig(path_);
  if (!config.ok()) {
    Log(LogLevel::kWarning, "the configuration stays as it was: {}", config.error().ToString());
    return;
  }
  const Status status = ApplyModuleConfig(control_, applied_, *config);
  if (status.ok())
    Log(LogLevel::kInfo, "{} was read again", path_.string());
  else
    Log(LogLevel::kWarning, "{} was read again: {}", path_.string(), status.error().ToString());
  if (const std::string later = RestartOnlyChanges(started_, *config); !later.empty()) {
    Log(LogLevel::kWarning, "{}: the server has to be started again to take over the change of {}",
        path_.string(), later);
  }
  applied_ = *config;
}

}  // namespace tenon
