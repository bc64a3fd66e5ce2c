#include "graph/cost.h"

#include "graph/ops/registry.h"

namespace tenon {

Cost& Cost::operator+=(const Cost& other) {
  flops += other.flops;
  weight_bytes += other.weight_bytes;
  activation_bytes += other.activation_bytes;
  kv_bytes += other.kv_bytes;
  return *this;
}

double DimSize(const Dim& dim, const CostPoint& point) {
  const double extent = static_cast<double>(dim.extent);
  switch (dim.symbol) {
    case Symbol::kTokens:
      return extent * static_cast<double>(point.tokens);
    case Symbol::kOutputs:
      return extent * static_cast<double>(point.outputs);
    case Symbol::kNone:
      break;
  }
  return extent;
}

double ElementCount(const Value& value, const CostPoint& point) {
  double count = 1;
  for (const Dim& dim : value.shape)
    count *= DimSize(dim, point);
  return count;
}

double ValueBytes(const Value& value, const CostPoint& point) {
  const DTypeInfo& info = GetDTypeInfo(value.dtype);
  return ElementCount(value, point) * info.block_bytes / info.block_elements;
}

Cost MovedBytes(const Graph& graph, const Op& op, const CostPoint& point) {
  Cost cost;
  for (const ValueId id : op.inputs) {
    const Value& value = graph.value(id);
    (value.kind == ValueKind::kWeight ? cost.weight_bytes : cost.activation_bytes) +=
        ValueBytes(value, point);
  }
  for (const ValueId id : op.outputs)
    cost.activation_bytes += ValueBytes(graph.value(id), point);
  return cost;
}

Cost PerValueCost(const Graph& graph, const Op& op, const CostPoint& point,
                  double flops_per_value) {
  Cost cost = MovedBytes(graph, op, point);
  cost.flops = flops_per_value * ElementCount(graph.value(op.outputs[0]), point);
  return cost;
}

double RopeFlops(double head_vectors, const RopeParams& rope) {
  constexpr double kFlopsPerValue = 3;
  return head_vectors * static_cast<double>(rope.rotary_dim) * kFlopsPerValue;
}

Cost OpCost(const Graph& graph, const Op& op, const CostPoint& point) {
  return SchemaOf(op.attrs).cost(graph, op, point);
}

Cost GraphCost(const Graph& graph, const CostPoint& point) {
  Cost total;
  for (const Op& op : graph.ops())
    total += OpCost(graph, op, point);
  return total;
}

}  // namespace tenon
