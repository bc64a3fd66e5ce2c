#include "graph/ops/registry.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace tenon {
namespace {

// Whether the op has a whole row at hand when it quantizes; the others have a block of 32.
bool MakesWholeRows(const Op& op) {
  return std::holds_alternative<RmsNormAttrs>(op.attrs) ||
         std::holds_alternative<LayerNormAttrs>(op.attrs) ||
         std::holds_alternative<PermuteAttrs>(op.attrs);
}

}  // namespace

Status QuantizeEpilogue(Graph& graph, const PassOptions& options) {
  const UseMap uses(graph);
  std::vector<bool> removed(graph.ops().size(), false);
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    if (!std::holds_alternative<QuantizeAttrs>(op.attrs) || !uses.OnlyUser(op.inputs[0]).valid())
      continue;
    const OpId producer = graph.value(op.inputs[0]).producer;
    if (!producer.valid())
      continue;
    const Op& source = graph.op(producer);
    const OpSchema& schema = SchemaOf(source.attrs);
    if (schema.may_quantize_output == nullptr || !schema.may_quantize_output(source))
      continue;
    const DType quantized = graph.value(op.outputs[0]).dtype;
    const bool needs_rows =
        quantized == DType::kActI8 && options.activations == ActivationMode::kInt8PerToken;
    if (needs_rows && !MakesWholeRows(source))
      continue;
    graph.mutable_value(op.inputs[0]).dtype = quantized;
    ReplaceUses(graph, op.outputs[0], op.inputs[0]);
    removed[i] = true;
  }
  RemoveOps(graph, removed);
  return {};
}

}  // namespace tenon
