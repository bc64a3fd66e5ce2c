// `tenon doctor`: the machine as the engine sees it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "frontend/cli/command.h"
#include "frontend/cli/model_flags.h"
#include "frontend/session/bench.h"
#include "frontend/session/model.h"
#include "frontend/store/store.h"
#include "hal/kernel_registry.h"
#include "hal/memory_bandwidth.h"
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

struct DoctorFlags {
  ModelFlags model;
  bool json = false;
};

// Larger than most caches, and quick to read.
constexpr int64_t kSweepBytes = int64_t{128} << 20;
constexpr int kSweeps = 5;

// GB/s over a buffer of `bytes` for each number of threads up to the default one, doubling.
Result<nlohmann::ordered_json> Bandwidths(int64_t bytes, int most_threads) {
  nlohmann::ordered_json rates = nlohmann::ordered_json::object();
  for (int threads = 1;; threads = std::min(threads * 2, most_threads)) {
    TENON_ASSIGN_OR_RETURN(auto pool, ThreadPool::Create(threads));
    TENON_ASSIGN_OR_RETURN(const double rate, ReadBandwidth(bytes, kSweeps, *pool));
    rates[fmt::format("{}", threads)] = std::round(rate / 1e8) / 10.0;
    if (threads >= most_threads)
      return rates;
  }
}

// A model's decode speed on an empty context beside what reading its weights alone would allow.
Result<nlohmann::ordered_json> ExamineModel(const ModelFlags& flags) {
  LoadOptions options;
  options.context_tokens = 64;
  options.batch_outputs = 1;
  options.batch_tokens = 16;
  TENON_ASSIGN_OR_RETURN(auto model, flags.OpenModel());
  TENON_RETURN_IF_ERROR(model->Load(options));
  const int64_t bytes = model->runner().weight_bytes();
  const std::vector<BenchCase> cases = {{BenchCase::Test::kDecode, 32, 1, 0}};
  TENON_ASSIGN_OR_RETURN(const auto rates, RunBench(*model, cases, kSweeps, nullptr));
  TENON_ASSIGN_OR_RETURN(const double read, ReadBandwidth(bytes, kSweeps, model->pool()));
  nlohmann::ordered_json report;
  report["bytes_per_token"] = bytes;
  report["decode_tok_s"] = rates.front().median;
  report["decode_gb_s"] = rates.front().median * static_cast<double>(bytes) / 1e9;
  report["sweep_gb_s"] = read / 1e9;
  report["share_of_sweep"] = rates.front().median * static_cast<double>(bytes) / read;
  return report;
}

Status Doctor(const DoctorFlags& flags) {
  nlohmann::ordered_json report = Examine();
  const int threads = report["default_threads"];
  const int64_t bytes = std::clamp(AvailableMemoryBytes() / 4, int64_t{1} << 20, kSweepBytes);
  TENON_ASSIGN_OR_RETURN(report["read_gb_s_by_threads"], Bandwidths(bytes, threads));
  if (!flags.model.model.empty() || !flags.model.model_flag.empty()) {
    TENON_ASSIGN_OR_RETURN(report["model"], ExamineModel(flags.model));
  }
  if (flags.json) {
    fmt::print("{}\n", report.dump());
    return {};
  }
  for (const auto& [key, value] : report.items())
    fmt::print("{:<24} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  return {};
}

}  // namespace

CommandBody DefineDoctor(CLI::App& app) {
  auto flags = std::make_shared<DoctorFlags>();
  app.add_option("MODEL", flags->model.model, "Measure this model's decode speed too");
  app.add_option("-m,--model", flags->model.model_flag, "The same as MODEL");
  app.add_flag("--json", flags->json, "As JSON");
  return [flags] { return Doctor(*flags); };
}

}  // namespace tenon
