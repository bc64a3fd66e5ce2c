// `tenon doctor`: the machine as the engine sees it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "frontend/cli/command.h"
#include "frontend/session/model.h"
#include "frontend/store/store.h"
#include "hal/kernel_registry.h"
#include "hal/self_check.h"
#include "hal/topology.h"

namespace tenon {
namespace {

nlohmann::ordered_json Examine() {
  const Topology topology = ReadTopology();
  nlohmann::ordered_json report;
  report["version"] = "0.1.0";
  report["cpu_model"] = topology.cpu_model;
  report["cpus_usable"] = topology.cores.size();
  report["cgroup_cpus"] = topology.cgroup_cpus;
  report["default_threads"] = DefaultThreadCount(topology);
  report["memory_limit_bytes"] = topology.memory_limit;
  report["memory_available_bytes"] = AvailableMemoryBytes();
  report["kernel_sets_built"] = BuiltKernelSetNames();
  nlohmann::ordered_json checks = nlohmann::ordered_json::object();
  for (const KernelSet* set : RunnableKernelSets()) {
    auto resolved = ResolveKernelSet(set->name);
    const Status check = resolved.ok() ? SelfCheck(*resolved) : Status(resolved.error());
    checks[set->name] = check.ok() ? "ok" : check.error().ToString();
  }
  report["kernel_sets_runnable"] = checks;
  auto chosen = ResolveKernelSetFromEnvironment();
  report["kernel_set"] = chosen.ok() ? chosen->name : chosen.error().ToString();
  report["store"] = ModelStore(ReadStoreSettings(ProcessEnvironment())).models_directory().string();
  return report;
}

Status Doctor(const std::shared_ptr<bool>& json) {
  const nlohmann::ordered_json report = Examine();
  if (*json) {
    fmt::print("{}\n", report.dump());
    return {};
  }
  for (const auto& [key, value] : report.items())
    fmt::print("{:<24} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  return {};
}

}  // namespace

CommandBody DefineDoctor(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "As JSON");
  return [json] { return Doctor(json); };
}

}  // namespace tenon
