// ModuleControl: the modules of a running server, as operators see them: on and off, other limits,
// other options, all between two steps and without dropping a request.
//
// Ownership: the engines outlive it. Threading: any thread; calls that change something wait until
// the engine's thread has done it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "accel/manager/supervised_engine.h"
#include "base/result.h"
#include "frontend/serving/serving_engine.h"

namespace tenon {

class ModuleControl {
 public:
  // Makes a module anew from options; on the caller's thread, while the engine goes on.
  using Rebuild =
      std::function<Result<std::unique_ptr<Module>>(std::string_view name, nlohmann::json options)>;

  // `rebuild` may be empty: then options can't be changed.
  ModuleControl(ServingEngine& serving, ModuleChain& chain, SupervisedEngine& supervised,
                Rebuild rebuild);

  ManagerReport report() const { return supervised_.report(); }

  Status Set(std::string_view module, Supervisor::Switch to);
  // `monitoring` has some of the names of the configuration's block, the others are those of
  // `over`.
  Status SetMonitoring(const nlohmann::json& monitoring, const MonitoringRules& over);
  // Replaces the module by one with these options, keeping the old one when that fails. Requests go
  // on while it loads what it needs; both are in memory for a moment. What the old one knew of the
  // requests begins anew.
  Status Reconfigure(std::string_view module, nlohmann::json options);

  // A step that takes longer than this is the server's trouble, not the caller's to wait for.
  static constexpr std::chrono::seconds kPatience{30};

 private:
  Status OnEngine(std::function<Status()> action);

  ServingEngine& serving_;
  ModuleChain& chain_;
  SupervisedEngine& supervised_;
  Rebuild rebuild_;
  std::mutex rebuilding_;  // one at a time
};

// The `monitoring` block over `rules`: max_acceptance_rate, min_latency_saving,
// max_integrity_failures, p99_rollback, shadow_share, return_margin, cool_down_s. Shares as numbers
// or "15%". Fails naming the field.
Result<MonitoringRules> ReadMonitoring(const nlohmann::json& monitoring, MonitoringRules rules);

// `module_memory_quota`: a share for each module name; "phase_splitting" is another name of
// phase_split.
Result<ModuleQuotas> ReadQuotas(const nlohmann::json& quotas, int64_t module_memory);

}  // namespace tenon
