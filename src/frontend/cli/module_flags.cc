#include "frontend/cli/module_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "frontend/serving/module_control.h"
#include "hal/kv_type.h"

namespace tenon {

void ModuleFlags::Add(CLI::App& app) {
  app.add_option("--config", config, "Configuration file with acceleration modules (tenon.yaml)");
  app.add_option("--module", modules,
                 "An acceleration module, such as ngram or draft_model:model=NAME,max_guesses=4")
      ->take_all();
}

Result<ModuleConfig> ModuleFlags::ToConfig() const {
  ModuleConfig all;
  if (!config.empty()) {
    TENON_ASSIGN_OR_RETURN(all, ReadModuleConfig(config));
    TENON_RETURN_IF_ERROR(CheckModuleConfig(all));
  }
  for (const std::string& flag : modules) {
    TENON_ASSIGN_OR_RETURN(ModuleConfig::Entry entry, ParseModuleFlag(flag));
    const auto found = std::ranges::find(all.modules, entry.name, &ModuleConfig::Entry::name);
    if (found != all.modules.end())
      *found = std::move(entry);
    else
      all.modules.push_back(std::move(entry));
  }
  return all;
}

namespace {

Status AddKvType(const ModuleConfig& config, LoadOptions& options) {
  if (config.kv_cache.empty())
    return {};
  Result<KvType> type = ParseKvType(config.kv_cache);
  if (!type.ok()) {
    type.error().where = config.kv_cache_where;
    return type.error();
  }
  if (options.kv_type.has_value() && *options.kv_type != *type) {
    return InvalidArgument(
        fmt::format("kv_cache is {} and --cache-type-k is {}; both must be the same",
                    config.kv_cache, KvTypeName(*options.kv_type)),
        config.kv_cache_where);
  }
  options.kv_type = *type;
  return {};
}

}  // namespace

Status ApplyToLoad(const ModuleConfig& config, LoadOptions& options) {
  TENON_RETURN_IF_ERROR(AddKvType(config, options));
  if (config.modules.empty())
    return {};
  options.batch_outputs += ModuleSet::kGuessRows;
  options.batch_tokens = std::max(options.batch_tokens, options.batch_outputs);
  return {};
}

Result<std::unique_ptr<ModuleSet>> MakeModules(Model& model, const ModuleConfig& config) {
  if (config.modules.empty())
    return std::unique_ptr<ModuleSet>();
  return ModuleSet::Create(model, config);
}

nlohmann::ordered_json ModulesJson(const ModuleChain& chain) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ModuleReport& report : chain.Report()) {
    nlohmann::ordered_json json;
    json["name"] = report.info.name;
    json["stage"] = ModuleStageName(report.info.stage);
    json["state"] = report.state == ModuleState::kOn ? "on" : "off";
    json["bytes"] = report.info.bytes;
    json["steps"] = report.stats.steps;
    json["decided"] = report.stats.decided;
    json["proposed"] = report.stats.proposed;
    json["accepted"] = report.stats.accepted;
    json["paused"] = report.stats.paused;
    json["integrity_failures"] = report.stats.integrity_failures;
    json["seconds"] = report.stats.seconds;
    for (const Module::Gauge& gauge : report.gauges)
      json["gauges"][gauge.name] = gauge.value;
    list.push_back(std::move(json));
  }
  return list;
}

void PrintModules(const ModuleChain& chain) {
  for (const ModuleReport& report : chain.Report()) {
    const ModuleStats& stats = report.stats;
    fmt::print(stderr, "[{}: {} steps, {} tokens decided, {} of {} guesses accepted]\n",
               report.info.name, stats.steps, stats.decided, stats.accepted, stats.proposed);
  }
}

}  // namespace tenon
