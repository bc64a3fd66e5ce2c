#include <unordered_map>
#include <utility>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace tenon {
namespace {

// The weights that are multiplied with input 0.
std::span<const ValueId> InputWeights(const Op& op) {
  if (std::holds_alternative<LinearAttrs>(op.attrs))
    return LinearWeights(op);
  // Gate and up.
  return std::holds_alternative<ExpertsAttrs>(op.attrs) ? std::span(op.inputs).subspan(2, 2)
                                                        : std::span<const ValueId>();
}

bool WantsQuantizedInput(const Graph& graph, const Op& op) {
  const std::span<const ValueId> weights = InputWeights(op);
  return !weights.empty() && graph.value(op.inputs[0]).dtype == DType::kF32 &&
         ClassOf(graph, weights) == WeightClass::kQuantized;
}

Op MakeQuantize(Graph& graph, const Op& linear) {
  const Value& x = graph.value(linear.inputs[0]);
  Value quantized;
  quantized.name = x.name + " quantized";
  quantized.dtype = DType::kActI8;
  quantized.shape = x.shape;
  quantized.place = linear.place;
  Op op{quantized.name, QuantizeAttrs{}, {linear.inputs[0]}, {}, linear.place};
  op.outputs = {graph.AddValue(std::move(quantized))};
  return op;
}

}  // namespace

Status ExplicitQuantize(Graph& graph, const PassOptions& options) {
  if (options.activations == ActivationMode::kFloat)
    return {};
  std::unordered_map<ValueId, ValueId> quantized;  // F32 value -> its quantized form
  std::vector<Op> ops;
  for (Op& op : graph.mutable_ops()) {
    if (WantsQuantizedInput(graph, op)) {
      const auto [known, inserted] = quantized.emplace(op.inputs[0], ValueId());
      if (inserted) {
        ops.push_back(MakeQuantize(graph, op));
        known->second = ops.back().outputs[0];
      }
      op.inputs[0] = known->second;
    }
    ops.push_back(std::move(op));
  }
  graph.mutable_ops() = std::move(ops);
  graph.RefreshProducers();
  return {};
}

}  // namespace tenon
