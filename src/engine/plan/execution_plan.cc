#include "engine/plan/execution_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "engine/plan/plan_compiler.h"

namespace tenon {
namespace {

void AddName(const Graph& graph, const Op& op, size_t input, std::vector<std::string>& names) {
  if (input >= op.inputs.size())
    return;
  if (const auto& weight = graph.value(op.inputs[input]).weight; weight.has_value())
    names.push_back(weight->tensor);
}

void AddLinearNames(const Graph& graph, const Op& op, const LinearAttrs& attrs,
                    WeightStore::Names& names) {
  const auto count = static_cast<size_t>(attrs.weight_count);
  for (size_t i = 0; i < count; ++i) {
    AddName(graph, op, 1 + i, names.matrices);
    if (attrs.has_bias)
      AddName(graph, op, 1 + count + i, names.vectors);
  }
}

void AddExpertNames(const Graph& graph, const Op& op, const ExpertsAttrs& attrs,
                    WeightStore::Names& names) {
  for (size_t input = 2; input <= 4; ++input)
    names.stacks.push_back({graph.WeightOf(op.inputs[input]).tensor, attrs.experts});
}

void AddLayerNormNames(const Graph& graph, const Op& op, WeightStore::Names& names) {
  AddName(graph, op, 1, names.vectors);
  AddName(graph, op, 2, names.vectors);
}

void AddPluginNames(const Graph& graph, const Op& op, WeightStore::Names& names) {
  for (size_t i = 0; i < op.inputs.size(); ++i)
    AddName(graph, op, i, names.vectors);
}

// The weight of the linear whose result is an output of the graph; empty without one.
std::string HeadName(const Graph& graph) {
  for (const Op& op : graph.ops()) {
    const bool is_linear = std::holds_alternative<LinearAttrs>(op.attrs);
    if (is_linear && std::ranges::count(graph.outputs(), op.outputs.front()) > 0)
      return graph.WeightOf(op.inputs[1]).tensor;
  }
  return {};
}

}  // namespace

WeightStore::Names ExecutionPlan::WeightNames(const Graph& graph) {
  WeightStore::Names names;
  names.head = HeadName(graph);
  for (const Op& op : graph.ops()) {
    if (const auto* linear = std::get_if<LinearAttrs>(&op.attrs))
      AddLinearNames(graph, op, *linear, names);
    else if (const auto* experts = std::get_if<ExpertsAttrs>(&op.attrs))
      AddExpertNames(graph, op, *experts, names);
    else if (std::holds_alternative<PluginAttrs>(op.attrs))
      AddPluginNames(graph, op, names);
    else if (std::holds_alternative<RmsNormAttrs>(op.attrs) ||
             std::holds_alternative<RouteAttrs>(op.attrs) ||
             std::holds_alternative<PermuteAttrs>(op.attrs))
      AddName(graph, op, 1, names.vectors);
    else if (std::holds_alternative<LayerNormAttrs>(op.attrs))
      AddLayerNormNames(graph, op, names);
    else if (std::holds_alternative<RopeAttrs>(op.attrs))
      AddName(graph, op, 2, names.vectors);
    else if (std::holds_alternative<AttentionAttrs>(op.attrs))
      AddName(graph, op, 4, names.vectors);
  }
  return names;
}

Result<ExecutionPlan> ExecutionPlan::Compile(const Graph& graph, const WeightSource& source,
                                             const WeightStore& weights, const KernelSet& kernels,
                                             const PlanOptions& options) {
  ExecutionPlan plan;
  plan.options_ = options;
  MemoryPlanOptions memory;
  memory.max_tokens = options.max_tokens;
  memory.max_outputs = options.max_outputs;
  TENON_ASSIGN_OR_RETURN(plan.memory_, PlanMemory(graph, memory));
  PlanCompiler compiler({graph, source, weights, kernels}, plan);
  TENON_RETURN_IF_ERROR(compiler.Run());
  return plan;
}

int64_t ExecutionPlan::TotalBytes(int threads) const {
  return arena_bytes() + workspace_bytes_ + worker_scratch_bytes_ * threads +
         rotary_.ReserveBytes(options_.max_tokens);
}

std::string ExecutionPlan::ToText() const {
  std::string text;
  for (size_t i = 0; i < steps_.size(); ++i) {
    fmt::format_to(std::back_inserter(text), "{:4} {:<28} {}\n", i, steps_[i]->name(),
                   steps_[i]->Describe());
  }
  return text;
}

}  // namespace tenon
