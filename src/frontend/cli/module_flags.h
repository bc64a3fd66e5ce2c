// Flags that choose acceleration modules, shared by the commands: a configuration file, single
// modules, or both; a flag takes the place of the file's module of the same name.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "frontend/session/module_config.h"
#include "frontend/session/module_set.h"

namespace tenon {

struct ModuleFlags {
  std::string config;                // --config
  std::vector<std::string> modules;  // --module

  void Add(CLI::App& app);
  Result<ModuleConfig> ToConfig() const;
};

// What the configuration means for loading: the KV cache's type, where it names one, and with
// modules room for guesses in the steps. Fails when -ctk or -ctv, which are in the options already,
// name another type.
Status ApplyToLoad(const ModuleConfig& config, LoadOptions& options);

// Null without modules. REQUIRES: the model is loaded.
Result<std::unique_ptr<ModuleSet>> MakeModules(Model& model, const ModuleConfig& config);

// For --json: {"name", "state", "bytes", "steps", "proposed", "accepted", ...} of each.
nlohmann::ordered_json ModulesJson(const ModuleChain& chain);
// For standard error: one line a module.
void PrintModules(const ModuleChain& chain);

}  // namespace tenon
