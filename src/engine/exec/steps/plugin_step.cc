#include "engine/exec/steps/plugin_step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "graph/plugin/plugin_graph_node.h"

namespace tenon {
namespace {

PluginSizes SizesOf(const StepContext& context) {
  return {context.RowCount(Symbol::kTokens), context.RowCount(Symbol::kOutputs)};
}

std::span<const int32_t> IdsOf(const Batch& batch, PluginStep::Ids ids) {
  if (ids == PluginStep::Ids::kTokens)
    return batch.tokens;
  return ids == PluginStep::Ids::kPositions ? batch.positions : batch.output_rows;
}

TenonTensor ToTensor(int32_t type, const std::vector<int64_t>& shape, const void* data) {
  // Plug-ins read inputs only; the interface has one kind of pointer.
  return {type, static_cast<int32_t>(shape.size()), shape.data(), const_cast<void*>(data)};
}

Status CheckShape(const TenonOutput& said, const TenonTensor& planned, size_t index) {
  const std::span<const int64_t> found(said.shape, static_cast<size_t>(said.rank));
  const std::span<const int64_t> expected(planned.shape, static_cast<size_t>(planned.rank));
  if (said.type == planned.type && std::ranges::equal(found, expected))
    return {};
  return InvalidArgument(
      fmt::format("the plugin says type {} and [{}] for output {}, "
                  "[{}] were planned",
                  said.type, fmt::join(found, ", "), index, fmt::join(expected, ", ")));
}

}  // namespace

std::string PluginStep::Describe() const {
  return fmt::format("plugin {}.{}", args_.attrs.op->domain, args_.attrs.op->name);
}

TenonTensor PluginStep::InputOf(const StepContext& context, size_t i,
                                const std::vector<int64_t>& shape) const {
  const Input& input = args_.inputs[i];
  if (input.ids != Ids::kNone)
    return ToTensor(TENON_I32, shape, IdsOf(context.batch, input.ids).data());
  const float* data = input.operand ? context.FloatRow(*input.operand, 0) : input.weight;
  return ToTensor(TENON_F32, shape, data);
}

TenonTensor PluginStep::OutputOf(const StepContext& context, size_t i,
                                 const std::vector<int64_t>& shape) const {
  return ToTensor(TENON_F32, shape, context.Row(args_.outputs[i], 0));
}

Status PluginStep::Run(const StepContext& context) const {
  Shapes shapes;
  for (const Input& input : args_.inputs)
    shapes.push_back(PluginExtents(input.shape, SizesOf(context)));
  std::vector<TenonTensor> inputs;
  for (size_t i = 0; i < args_.inputs.size(); ++i)
    inputs.push_back(InputOf(context, i, shapes[i]));
  const PluginGraphNode node(args_.attrs, std::move(inputs));
  Status status = Call(context, node);
  if (!status.ok())
    status.error().where = fmt::format("{} ({})", name(), Describe());
  return status;
}

Status PluginStep::Call(const StepContext& context, const PluginNode& node) const {
  Shapes shapes;
  int64_t most_rows = 0;
  for (const Operand& output : args_.outputs) {
    shapes.push_back({context.RowCount(output.rows), output.columns});
    most_rows = std::max(most_rows, shapes.back().front());
  }
  if (most_rows == 0)
    return {};
  TENON_ASSIGN_OR_RETURN(const auto said, PluginShape(*args_.attrs.op, node));
  std::vector<TenonTensor> outputs;
  for (size_t i = 0; i < args_.outputs.size(); ++i) {
    outputs.push_back(OutputOf(context, i, shapes[i]));
    TENON_RETURN_IF_ERROR(CheckShape(said[i], outputs[i], i));
  }
  return PluginRun(*args_.attrs.op, node, outputs);
}

}  // namespace tenon
