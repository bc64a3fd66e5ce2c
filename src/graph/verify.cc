#include "graph/verify.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "graph/ops/registry.h"
#include "graph/text.h"

namespace tenon {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  Status Run() {
    defined_.assign(graph_.values().size(), false);
    TENON_RETURN_IF_ERROR(CheckSources());
    for (size_t i = 0; i < graph_.ops().size(); ++i)
      TENON_RETURN_IF_ERROR(CheckOp(i));
    TENON_RETURN_IF_ERROR(CheckProducers());
    return CheckOutputs();
  }

 private:
  bool IsValue(ValueId id) const { return id.valid() && id.index() < graph_.values().size(); }

  // 'op 3 (rms_norm "layer 0 norm"): <what>'.
  Error OpError(size_t index, std::string_view what) const {
    const Op& op = graph_.ops()[index];
    return InvalidArgument(
        fmt::format("op {} ({} \"{}\"): {}", index, SchemaOf(op.attrs).name, op.name, what));
  }

  Status CheckSources();
  Status CheckWeight(const Value& value);
  Status CheckOp(size_t index);
  Status CheckInputs(size_t index);
  Status CheckLayer(size_t index);
  Status CheckOutput(size_t index, size_t output, const ValueType& expected);
  Status CheckProducers();
  Status CheckOutputs();

  const Graph& graph_;
  std::vector<bool> defined_;  // by value: a source, or written by an op before the current one
  std::set<std::string_view> input_names_;
  std::map<std::string_view, std::pair<DType, std::vector<Dim>>> tensors_;  // type of one row
  std::map<int64_t, size_t> layers_;                                        // KV layer -> op
};

Status Verifier::CheckSources() {
  for (size_t i = 0; i < graph_.values().size(); ++i) {
    const Value& value = graph_.values()[i];
    if (value.kind == ValueKind::kTemporary)
      continue;
    defined_[i] = true;
    if (value.kind == ValueKind::kWeight)
      TENON_RETURN_IF_ERROR(CheckWeight(value));
    else if (!input_names_.insert(value.name).second)
      return InvalidArgument(fmt::format("two graph inputs have the name \"{}\"", value.name));
  }
  return {};
}

Status Verifier::CheckWeight(const Value& value) {
  if (!value.weight)
    return InvalidArgument(fmt::format("weight \"{}\" does not say its tensor", value.name));
  for (const Dim& dim : value.shape) {
    if (dim.symbol != Symbol::kNone || dim.extent <= 0)
      return InvalidArgument(
          fmt::format("weight {} is {}, expected positive numbers", value.name, TypeText(value)));
  }
  const WeightRef& ref = *value.weight;
  const int64_t rows = value.shape.empty() ? 0 : value.shape[0].extent;
  if (rows == 0 || ref.row_begin < 0 || ref.row_end <= ref.row_begin ||
      ref.row_end - ref.row_begin != rows)
    return InvalidArgument(fmt::format("weight {} takes rows [{},{}) but is {}", value.name,
                                       ref.row_begin, ref.row_end, TypeText(value)));
  const std::pair row(value.dtype, std::vector<Dim>(value.shape.begin() + 1, value.shape.end()));
  const auto [known, inserted] = tensors_.emplace(ref.tensor, row);
  if (!inserted && known->second != row)
    return InvalidArgument(
        fmt::format("tensor {} is used as {} and with another dtype or row length", ref.tensor,
                    TypeText(value)));
  return {};
}

Status Verifier::CheckOp(size_t index) {
  const Op& op = graph_.ops()[index];
  TENON_RETURN_IF_ERROR(CheckInputs(index));
  TENON_RETURN_IF_ERROR(CheckLayer(index));
  TENON_ASSIGN_OR_RETURN(const std::vector<ValueType> types, SchemaOf(op.attrs).shape(graph_, op));
  if (op.outputs.size() != types.size())
    return OpError(index,
                   fmt::format("has {} outputs, expected {}", op.outputs.size(), types.size()));
  for (size_t i = 0; i < types.size(); ++i)
    TENON_RETURN_IF_ERROR(CheckOutput(index, i, types[i]));
  return {};
}

Status Verifier::CheckInputs(size_t index) {
  const Op& op = graph_.ops()[index];
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!IsValue(op.inputs[i]))
      return OpError(index, fmt::format("input {} is no value of the graph", i));
    if (!defined_[op.inputs[i].index()])
      return OpError(index, fmt::format("input {} ({}) is used before it is defined", i,
                                        graph_.value(op.inputs[i]).name));
  }
  return {};
}

Status Verifier::CheckLayer(size_t index) {
  const auto* attention = std::get_if<AttentionAttrs>(&graph_.ops()[index].attrs);
  if (attention == nullptr)
    return {};
  const auto [known, inserted] = layers_.emplace(attention->layer, index);
  if (inserted)
    return {};
  return OpError(index,
                 fmt::format("layer {} already belongs to op {}", attention->layer, known->second));
}

Status Verifier::CheckOutput(size_t index, size_t output, const ValueType& expected) {
  const Op& op = graph_.ops()[index];
  const ValueId id = op.outputs[output];
  if (!IsValue(id))
    return OpError(index, fmt::format("output {} is no value of the graph", output));
  const Value& value = graph_.value(id);
  if (value.kind != ValueKind::kTemporary)
    return OpError(index, fmt::format("output {} ({}) is an input or weight of the graph", output,
                                      value.name));
  if (defined_[id.index()])
    return OpError(index, fmt::format("output {} ({}) is defined twice", output, value.name));
  defined_[id.index()] = true;
  if (value.producer != OpId(static_cast<uint32_t>(index)))
    return OpError(index, fmt::format("output {} ({}) names another producer", output, value.name));
  const ValueType found{value.dtype, value.shape};
  const ValueType quantized{value.dtype, expected.shape};
  const OpSchema& schema = SchemaOf(op.attrs);
  const bool may_quantize =
      schema.may_quantize_output != nullptr && schema.may_quantize_output(op) &&
      expected.dtype == DType::kF32 && IsQuantizedActivation(value.dtype) &&
      expected.shape.back().extent % GetDTypeInfo(value.dtype).block_elements == 0;
  if (found == expected || (may_quantize && found == quantized))
    return {};
  return OpError(index, fmt::format("output {} ({}) is {}, expected {}", output, value.name,
                                    TypeText(value), TypeText(expected)));
}

// A value without an op that writes it must not claim one.
Status Verifier::CheckProducers() {
  for (size_t i = 0; i < graph_.values().size(); ++i) {
    const Value& value = graph_.values()[i];
    if (value.producer.valid() && (value.kind != ValueKind::kTemporary || !defined_[i]))
      return InvalidArgument(
          fmt::format("value {} ({}) names op {} as its producer, which does not "
                      "write it",
                      i, value.name, value.producer.index()));
  }
  return {};
}

Status Verifier::CheckOutputs() {
  if (graph_.outputs().empty())
    return InvalidArgument("the graph has no outputs");
  for (size_t i = 0; i < graph_.outputs().size(); ++i) {
    const ValueId id = graph_.outputs()[i];
    if (!IsValue(id))
      return InvalidArgument(fmt::format("graph output {} is no value of the graph", i));
    if (!graph_.value(id).producer.valid())
      return InvalidArgument(
          fmt::format("graph output {} ({}) is produced by no op", i, graph_.value(id).name));
  }
  return {};
}

}  // namespace

Status VerifyGraph(const Graph& graph) {
  return Verifier(graph).Run();
}

}  // namespace tenon
