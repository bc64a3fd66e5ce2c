#include "graph/graph.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "graph/ops/registry.h"

namespace tenon {
namespace {

// Ids of ops and values are 32 bits.
uint32_t NextIndex(size_t size) {
  TENON_CHECK(size < OpId().index());
  return static_cast<uint32_t>(size);
}

}  // namespace

const WeightRef& Graph::WeightOf(ValueId id) const {
  const auto& weight = value(id).weight;
  TENON_CHECK(weight.has_value());
  return *weight;
}

ValueId Graph::AddValue(Value value) {
  const ValueId id(NextIndex(values_.size()));
  values_.push_back(std::move(value));
  return id;
}

ValueId Graph::AddInput(std::string name, DType dtype, std::vector<Dim> shape) {
  Value value;
  value.name = std::move(name);
  value.dtype = dtype;
  value.shape = std::move(shape);
  value.kind = ValueKind::kInput;
  return AddValue(std::move(value));
}

ValueId Graph::AddWeight(std::string tensor, DType dtype, std::vector<Dim> shape) {
  const int64_t rows = shape.empty() ? 0 : shape.front().extent;
  return AddWeightRows(WeightRef{std::move(tensor), 0, rows}, dtype, std::move(shape));
}

ValueId Graph::AddWeightRows(WeightRef ref, DType dtype, std::vector<Dim> shape) {
  for (size_t i = 0; i < values_.size(); ++i) {
    const Value& known = values_[i];
    if (known.weight == ref && known.dtype == dtype && known.shape == shape)
      return ValueId(static_cast<uint32_t>(i));
  }
  Value value;
  value.name = ref.tensor;
  value.dtype = dtype;
  value.shape = std::move(shape);
  value.kind = ValueKind::kWeight;
  value.weight = std::move(ref);
  return AddValue(std::move(value));
}

Result<std::vector<ValueId>> Graph::AddOp(std::string name, OpAttrs attrs,
                                          std::vector<ValueId> inputs) {
  Op op{std::move(name), attrs, std::move(inputs), {}, {}};
  const OpSchema& schema = SchemaOf(op.attrs);
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!op.inputs[i].valid() || op.inputs[i].index() >= values_.size())
      return InvalidArgument(
          fmt::format("{} \"{}\": input {} is no value of the graph", schema.name, op.name, i));
  }
  TENON_ASSIGN_OR_RETURN(std::vector<ValueType> types, schema.shape(*this, op));
  const OpId id(NextIndex(ops_.size()));
  for (size_t i = 0; i < types.size(); ++i) {
    Value value;
    value.name = types.size() == 1 ? op.name : fmt::format("{}.{}", op.name, i);
    value.dtype = types[i].dtype;
    value.shape = std::move(types[i].shape);
    value.producer = id;
    op.outputs.push_back(AddValue(std::move(value)));
  }
  std::vector<ValueId> outputs = op.outputs;
  ops_.push_back(std::move(op));
  return outputs;
}

void Graph::RefreshProducers() {
  for (Value& value : values_)
    value.producer = OpId();
  for (size_t i = 0; i < ops_.size(); ++i) {
    for (const ValueId output : ops_[i].outputs)
      values_[output.index()].producer = OpId(static_cast<uint32_t>(i));
  }
}

}  // namespace tenon
