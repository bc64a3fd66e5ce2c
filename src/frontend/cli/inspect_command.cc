// `tenon inspect`: a model at each stage from file to plan.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "frontend/cli/command.h"
#include "frontend/cli/inspect_onnx.h"
#include "frontend/cli/model_flags.h"
#include "graph/cost.h"
#include "graph/memory_plan.h"
#include "graph/text.h"

namespace tenon {
namespace {

struct InspectFlags {
  ModelFlags model;
  std::string stage;
  bool json = false;
  InspectOnnxFlags onnx;
};

nlohmann::ordered_json SourceReport(const ModelSource& source) {
  nlohmann::ordered_json report;
  report["format"] = source.format;
  report["architecture"] = source.config.architecture;
  report["name"] = source.config.name;
  report["licence"] = source.config.licence;
  report["tensors"] = source.tensors.size();
  int64_t bytes = 0;
  int64_t parameters = 0;
  for (const TensorInfo& tensor : source.tensors) {
    bytes += static_cast<int64_t>(tensor.bytes);
    parameters += tensor.rows() * tensor.columns();
  }
  report["parameters"] = parameters;
  report["tensor_bytes"] = bytes;
  report["context_length"] = source.config.context_length;
  report["vocab_size"] = source.config.vocab_size;
  return report;
}

Result<nlohmann::ordered_json> GraphReport(const Graph& graph, const RunnerOptions& options) {
  MemoryPlanOptions memory;
  memory.max_tokens = options.plan.max_tokens;
  memory.max_outputs = options.plan.max_outputs;
  TENON_ASSIGN_OR_RETURN(const MemoryPlan plan, PlanMemory(graph, memory));
  CostPoint point;
  point.context = options.passes.cost_point.context;
  const Cost cost = GraphCost(graph, point);
  nlohmann::ordered_json report;
  report["ops"] = graph.ops().size();
  report["flops_per_token"] = cost.flops;
  report["bytes_per_token"] = cost.bytes();
  report["weight_bytes_per_token"] = cost.weight_bytes;
  report["arena_bytes"] = plan.peak_bytes;
  report["arena_bytes_without_reuse"] = plan.unshared_bytes;
  return report;
}

nlohmann::ordered_json PassesReport(const OptimizeReport& passes) {
  nlohmann::ordered_json report = nlohmann::ordered_json::array();
  for (const PassStats& pass : passes.passes) {
    nlohmann::ordered_json row;
    row["pass"] = pass.name;
    row["milliseconds"] = pass.milliseconds;
    row["ops_before"] = pass.ops_before;
    row["ops_after"] = pass.ops_after;
    row["bytes_before"] = pass.before.bytes();
    row["bytes_after"] = pass.after.bytes();
    report.push_back(row);
  }
  return report;
}

nlohmann::ordered_json PlanReport(const ModelRunner& runner) {
  const ExecutionPlan& plan = runner.plan();
  CostPoint point;
  point.context = runner.options().passes.cost_point.context;
  const Cost cost = GraphCost(runner.optimized_graph(), point);
  nlohmann::ordered_json report;
  report["ops"] = plan.steps().size();
  report["flops_per_token"] = cost.flops;
  report["bytes_per_token"] = cost.bytes();
  report["arena_bytes"] = plan.arena_bytes();
  report["workspace_bytes"] = plan.workspace_bytes();
  report["packed_weight_bytes"] = runner.weight_bytes();
  return report;
}

void PrintSource(const ModelSource& source) {
  for (const auto& [key, value] : source.metadata)
    fmt::print("{} = {}\n", key, value);
  for (const TensorInfo& tensor : source.tensors) {
    fmt::print("{:<40} {:<7} [{}]  {} bytes at {}\n", tensor.name, DTypeName(tensor.dtype),
               fmt::join(tensor.shape, ", "), tensor.bytes, tensor.offset);
  }
}

void PrintTable(std::string_view title, const nlohmann::ordered_json& report) {
  fmt::print("{}\n", title);
  for (const auto& [key, value] : report.items()) {
    if (!value.is_structured())
      fmt::print("  {:<28} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  }
}

Result<nlohmann::ordered_json> FullReport(const Model& model, const ModelRunner& runner) {
  nlohmann::ordered_json report;
  report["source"] = SourceReport(model.source());
  TENON_ASSIGN_OR_RETURN(report["graph"], GraphReport(runner.source_graph(), runner.options()));
  TENON_ASSIGN_OR_RETURN(report["optimized"],
                         GraphReport(runner.optimized_graph(), runner.options()));
  report["optimized"]["passes"] = PassesReport(runner.optimize_report());
  report["plan"] = PlanReport(runner);
  return report;
}

void PrintStage(const InspectFlags& flags, Model& model) {
  if (flags.stage == "graph")
    fmt::print("{}", PrintGraph(model.runner().source_graph()));
  else if (flags.stage == "optimized")
    fmt::print("{}", PrintGraph(model.runner().optimized_graph()));
  else
    fmt::print("{}", model.runner().plan().ToText());
}

// The file's own facts need no architecture that we know.
Status InspectSource(const InspectFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const std::filesystem::path path, flags.model.Path());
  TENON_ASSIGN_OR_RETURN(const ModelSource source, OpenModel(path));
  if (flags.json)
    fmt::print("{}\n", SourceReport(source).dump());
  else
    PrintSource(source);
  return {};
}

Status Inspect(const InspectFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const std::filesystem::path path, flags.model.Path());
  if (IsGeneralOnnx(path))
    return InspectOnnx(path, flags.onnx, flags.stage,
                       flags.json ? InspectForm::kJson : InspectForm::kTable);
  if (flags.stage == "source")
    return InspectSource(flags);
  TENON_ASSIGN_OR_RETURN(auto model, flags.model.OpenModel());
  TENON_ASSIGN_OR_RETURN(const LoadOptions options, flags.model.ToLoadOptions());
  TENON_RETURN_IF_ERROR(model->Prepare(options));
  if (!flags.stage.empty() && !flags.json) {
    PrintStage(flags, *model);
    return {};
  }
  TENON_ASSIGN_OR_RETURN(const nlohmann::ordered_json report, FullReport(*model, model->runner()));
  if (flags.json) {
    fmt::print("{}\n", flags.stage.empty() ? report.dump() : report[flags.stage].dump());
    return {};
  }
  for (const auto& [stage, part] : report.items())
    PrintTable(stage, part);
  return {};
}

}  // namespace

CommandBody DefineInspect(CLI::App& app) {
  auto flags = std::make_shared<InspectFlags>();
  flags->model.AddAll(app);
  app.add_option("--stage", flags->stage, "One stage in full: source, graph, optimized or plan")
      ->check(CLI::IsMember({"source", "graph", "optimized", "plan"}));
  flags->onnx.Add(app);
  app.add_flag("--json", flags->json, "As JSON");
  return [flags] { return Inspect(*flags); };
}

}  // namespace tenon
