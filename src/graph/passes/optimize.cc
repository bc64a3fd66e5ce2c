#include "graph/passes/optimize.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "graph/passes/passes.h"
#include "graph/verify.h"

namespace tenon {
namespace {

// gate_up comes before merge_linears, which would merge its two linears with others on the same
// input; quantization comes last, on linears that are final.
constexpr std::array kPasses = {
    Pass{"dead_code", "removes ops whose results nobody uses", DeadCode},
    Pass{"common_subexpressions", "makes equal ops one op", CommonSubexpressions},
    Pass{"fold_scales", "folds constant factors into other ops", FoldScales},
    Pass{"gate_up", "fuses gate, up, activation and product into one linear", GateUp},
    Pass{"merge_linears", "makes linears on the same input one linear", MergeLinears},
    Pass{"residual_epilogue", "fuses residual additions into linears and norms", ResidualEpilogue},
    Pass{"rope_into_attention", "fuses the rotation of q and k into attention", RopeIntoAttention},
    Pass{"narrow_rows", "computes only rows that are read, after the last attention", NarrowRows},
    Pass{"explicit_quantize", "quantizes the inputs of quantized linears once", ExplicitQuantize},
    Pass{"quantize_epilogue", "fuses quantize into the op before it", QuantizeEpilogue},
};

const Pass* FindPass(std::string_view name) {
  const auto found = std::find_if(kPasses.begin(), kPasses.end(),
                                  [&](const Pass& pass) { return pass.name == name; });
  return found == kPasses.end() ? nullptr : &*found;
}

Error UnknownPass(std::string_view name) {
  std::string known;
  for (const Pass& pass : kPasses)
    known += fmt::format("{}{}", known.empty() ? "" : ", ", pass.name);
  return InvalidArgument(fmt::format("no pass is named \"{}\"; known: {}", name, known));
}

// A graph that verified before the pass and does not after it is the pass's fault.
Result<PassStats> RunMeasured(Graph& graph, const Pass& pass, const PassOptions& options) {
  using Clock = std::chrono::steady_clock;
  PassStats stats;
  stats.name = pass.name;
  stats.ops_before = graph.ops().size();
  stats.before = GraphCost(graph, options.cost_point);
  const Clock::time_point start = Clock::now();
  TENON_RETURN_IF_ERROR(pass.run(graph, options));
  stats.milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  if (Status status = VerifyGraph(graph); !status.ok())
    return MakeError(ErrorCode::kInternal, status.error().ToString(),
                     fmt::format("after pass {}", pass.name));
  stats.ops_after = graph.ops().size();
  stats.after = GraphCost(graph, options.cost_point);
  return stats;
}

bool IsDisabled(const PassOptions& options, std::string_view name) {
  return std::find(options.disabled.begin(), options.disabled.end(), name) !=
         options.disabled.end();
}

}  // namespace

std::span<const Pass> OptimizePasses() {
  return kPasses;
}

Result<OptimizeReport> Optimize(Graph& graph, const PassOptions& options) {
  for (const std::string& name : options.disabled) {
    if (FindPass(name) == nullptr)
      return UnknownPass(name);
  }
  TENON_RETURN_IF_ERROR(VerifyGraph(graph));
  OptimizeReport report;
  if (options.level == OptimizeLevel::kO0)
    return report;
  for (const Pass& pass : kPasses) {
    if (IsDisabled(options, pass.name))
      continue;
    TENON_ASSIGN_OR_RETURN(PassStats stats, RunMeasured(graph, pass, options));
    report.passes.push_back(std::move(stats));
  }
  return report;
}

Result<PassStats> RunPass(Graph& graph, std::string_view name, const PassOptions& options) {
  const Pass* pass = FindPass(name);
  if (pass == nullptr)
    return UnknownPass(name);
  TENON_RETURN_IF_ERROR(VerifyGraph(graph));
  return RunMeasured(graph, *pass, options);
}

}  // namespace tenon
