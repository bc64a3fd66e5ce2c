// `tenon plan`: the memory that loading and running will take, told without loading.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "frontend/cli/command.h"
#include "frontend/cli/model_flags.h"
#include "hal/topology.h"

namespace tenon {
namespace {

struct PlanFlags {
  ModelFlags model;
  int64_t parallel = 1;
  bool json = false;
};

Result<nlohmann::ordered_json> Predict(const PlanFlags& flags) {
  TENON_ASSIGN_OR_RETURN(auto model, flags.model.OpenModel());
  TENON_ASSIGN_OR_RETURN(LoadOptions options, flags.model.ToLoadOptions());
  options.sequences = flags.parallel;
  TENON_RETURN_IF_ERROR(model->Prepare(options));
  const int threads = options.threads > 0 ? options.threads : DefaultThreadCount(ReadTopology());
  const MemoryNeeds needs = model->runner().Needs(threads);
  nlohmann::ordered_json report;
  // What is resident now (program, tokenizer, graph) stays; the needs come on top.
  report["peak_rss_bytes"] = ResidentBytes() + needs.total();
  report["weights_bytes"] = needs.weights;
  report["kv_bytes"] = needs.kv;
  report["workspace_bytes"] = needs.workspace;
  report["kv_blocks"] = model->runner().kv_config().blocks;
  // Every sequence holds at least one block.
  report["max_sequences"] = model->runner().kv_config().blocks;
  report["context_tokens"] = model->context_tokens();
  report["available_bytes"] = AvailableMemoryBytes();
  return report;
}

Status Plan(const PlanFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const nlohmann::ordered_json report, Predict(flags));
  if (flags.json) {
    fmt::print("{}\n", report.dump());
    return {};
  }
  for (const auto& [key, value] : report.items()) {
    if (key.ends_with("_bytes"))
      fmt::print("{:<16} {:10.1f} MiB\n", key, value.get<double>() / 1048576.0);
    else
      fmt::print("{:<16} {:10}\n", key, value.get<int64_t>());
  }
  return {};
}

}  // namespace

CommandBody DefinePlan(CLI::App& app) {
  auto flags = std::make_shared<PlanFlags>();
  flags->model.AddAll(app);
  app.add_option("--parallel", flags->parallel,
                 "Sequences at a time, which a packed KV cache must know (-np)")
      ->check(CLI::Range(int64_t{1}, int64_t{1024}));
  app.add_flag("--json", flags->json, "As JSON");
  return [flags] { return Plan(*flags); };
}

}  // namespace tenon
