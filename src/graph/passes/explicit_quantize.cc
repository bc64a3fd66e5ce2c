#include <map>
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

// What input 0 should be quantized to; kF32: it should stay.
DType WantedInput(const Graph& graph, const Op& op, const PassOptions& options) {
  const std::span<const ValueId> weights = InputWeights(op);
  if (weights.empty() || graph.value(op.inputs[0]).dtype != DType::kF32)
    return DType::kF32;
  const WeightClass weight_class = ClassOf(graph, weights);
  if (weight_class == WeightClass::kQuantized)
    return DType::kActI8;
  const bool is_wide = options.wide_activations == WideActivations::kByOps;
  return is_wide && weight_class == WeightClass::kHalf ? DType::kActI16 : DType::kF32;
}

Op MakeQuantize(Graph& graph, const Op& linear, DType dtype) {
  const Value& x = graph.value(linear.inputs[0]);
  Value quantized;
  quantized.name = x.name + " quantized";
  quantized.dtype = dtype;
  quantized.shape = x.shape;
  quantized.place = linear.place;
  const QuantizeAttrs attrs{.bits = dtype == DType::kActI8 ? 8 : 16};
  Op op{quantized.name, attrs, {linear.inputs[0]}, {}, linear.place};
  op.outputs = {graph.AddValue(std::move(quantized))};
  return op;
}

}  // namespace

Status ExplicitQuantize(Graph& graph, const PassOptions& options) {
  if (options.activations == ActivationMode::kFloat)
    return {};
  std::map<std::pair<ValueId, DType>, ValueId> quantized;  // F32 value -> its quantized form
  std::vector<Op> ops;
  for (Op& op : graph.mutable_ops()) {
    const DType wanted = WantedInput(graph, op, options);
    if (wanted != DType::kF32) {
      const auto [known, inserted] = quantized.emplace(std::pair(op.inputs[0], wanted), ValueId());
      if (inserted) {
        ops.push_back(MakeQuantize(graph, op, wanted));
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
