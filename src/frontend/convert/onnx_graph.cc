#include "frontend/convert/onnx_graph.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "model/arch/architecture.h"

namespace tenon {

// Vectors stay floats, whatever the weights are.
Result<std::string> OnnxGraphWriter::Vector(ValueId weight) {
  const WeightRef& ref = graph_.WeightOf(weight);
  TENON_RETURN_IF_ERROR(file_.PutFloats(ref.tensor, builder_));
  return ref.tensor;
}

Result<std::string> OnnxGraphWriter::Matrix(ValueId weight) {
  const std::string tensor = graph_.WeightOf(weight).tensor;
  if (const auto found = matrices_.find(tensor); found != matrices_.end())
    return found->second;
  std::string rows = tensor;
  if (weights_ == OnnxWeights::kI8) {
    TENON_RETURN_IF_ERROR(file_.PutInt8(tensor, builder_));
    rows = builder_.Node("DequantizeLinear", {tensor + ".q", tensor + ".scale"},
                         {{"axis", int64_t{0}}});
  } else {
    TENON_RETURN_IF_ERROR(file_.PutFloats(tensor, builder_));
  }
  const std::string columns =
      builder_.Node("Transpose", {rows}, {{"perm", std::vector<int64_t>{1, 0}}});
  return matrices_[tensor] = columns;
}

Status OnnxGraphWriter::Embed(const Op& op, const EmbedAttrs& attrs) {
  const std::string& tensor = graph_.WeightOf(op.inputs[1]).tensor;
  std::string rows;
  if (weights_ == OnnxWeights::kI8) {
    // Rows are dequantized after they were chosen, not the whole table.
    TENON_RETURN_IF_ERROR(file_.PutInt8(tensor, builder_));
    const std::string q = builder_.Node("Gather", {tensor + ".q", "input_ids"});
    const std::string scale = builder_.Node("Gather", {tensor + ".scale", "input_ids"});
    const std::string values =
        builder_.Node("Cast", {q}, {{"to", static_cast<int64_t>(ElementType::kF32)}});
    rows = builder_.Node("Mul",
                         {values, builder_.Node("Unsqueeze", {scale, builder_.Integers({-1})})});
  } else {
    TENON_RETURN_IF_ERROR(file_.PutFloats(tensor, builder_));
    rows = builder_.Node("Gather", {tensor, "input_ids"});
  }
  Out(op, Mul(rows, attrs.scale));
  return {};
}

Status OnnxGraphWriter::Norm(const Op& op, const RmsNormAttrs& attrs) {
  if (attrs.add_residual)
    return Unsupported("a fused norm", op.name);
  const int64_t width = graph_.value(op.outputs[0]).shape.back().extent;
  const bool grouped = attrs.group != width;
  std::string x = In(op, 0);
  if (grouped)
    x = builder_.Node("Reshape", {x, builder_.Integers({0, 0, -1, attrs.group})});
  TENON_ASSIGN_OR_RETURN(const std::string weight, Vector(op.inputs[1]));
  const std::string squares = builder_.Node("Mul", {x, x});
  const std::string mean = builder_.Node(
      "ReduceMean", {squares}, {{"axes", std::vector<int64_t>{-1}}, {"keepdims", int64_t{1}}});
  const std::string root =
      builder_.Node("Sqrt", {builder_.Node("Add", {mean, builder_.Number(attrs.eps)})});
  std::string y = builder_.Node("Mul", {builder_.Node("Div", {x, root}), weight});
  if (grouped)
    y = builder_.Node("Reshape", {y, builder_.Integers({0, 0, -1})});
  Out(op, y);
  return {};
}

Status OnnxGraphWriter::Linear(const Op& op, const LinearAttrs& attrs) {
  if (attrs.weight_count != 1 || attrs.epilogue != Epilogue::kNone)
    return Unsupported("a fused linear layer", op.name);
  TENON_ASSIGN_OR_RETURN(const std::string weight, Matrix(op.inputs[1]));
  std::string y = builder_.Node("MatMul", {In(op, 0), weight});
  if (attrs.has_bias) {
    TENON_ASSIGN_OR_RETURN(const std::string bias, Vector(op.inputs[2]));
    y = builder_.Node("Add", {y, bias});
  }
  Out(op, y);
  return {};
}

// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
std::string OnnxGraphWriter::Gelu(const std::string& x) {
  const std::string cube = builder_.Node("Mul", {builder_.Node("Mul", {x, x}), x});
  const std::string inner =
      builder_.Node("Add", {x, builder_.Node("Mul", {cube, builder_.Number(0.044715F)})});
  const auto factor = static_cast<float>(std::sqrt(2.0 / std::numbers::pi));
  const std::string turned = builder_.Node("Tanh", {Mul(inner, factor)});
  const std::string gate = builder_.Node("Add", {turned, builder_.Number(1.0F)});
  return builder_.Node("Mul", {Mul(x, 0.5F), gate});
}

std::string OnnxGraphWriter::Softcap(const std::string& x, float cap) {
  if (cap == 0.0F)
    return x;
  return Mul(builder_.Node("Tanh", {Mul(x, 1.0F / cap)}), cap);
}

Status OnnxGraphWriter::WriteOp(const Op& op) {
  const OpAttrs& attrs = op.attrs;
  if (const auto* embed = std::get_if<EmbedAttrs>(&attrs))
    return Embed(op, *embed);
  if (const auto* norm = std::get_if<RmsNormAttrs>(&attrs))
    return Norm(op, *norm);
  if (const auto* linear = std::get_if<LinearAttrs>(&attrs))
    return Linear(op, *linear);
  if (const auto* rope = std::get_if<RopeAttrs>(&attrs))
    return Rope(op, *rope);
  if (const auto* attention = std::get_if<AttentionAttrs>(&attrs))
    return Attention(op, *attention);
  if (std::holds_alternative<AddAttrs>(attrs))
    Out(op, builder_.Node("Add", {In(op, 0), In(op, 1)}));
  else if (std::holds_alternative<MulAttrs>(attrs))
    Out(op, builder_.Node("Mul", {In(op, 0), In(op, 1)}));
  else if (const auto* scale = std::get_if<ScaleAttrs>(&attrs))
    Out(op, Mul(In(op, 0), scale->factor));
  else if (std::holds_alternative<SiluAttrs>(attrs))
    Out(op, builder_.Node("Mul", {In(op, 0), builder_.Node("Sigmoid", {In(op, 0)})}));
  else if (std::holds_alternative<GeluAttrs>(attrs))
    Out(op, Gelu(In(op, 0)));
  else if (const auto* softcap = std::get_if<SoftcapAttrs>(&attrs))
    Out(op, Softcap(In(op, 0), softcap->cap));
  else if (std::holds_alternative<SelectRowsAttrs>(attrs))
    Out(op, In(op, 0));  // logits of every position are asked for
  else
    return Unsupported("the operation has no ONNX form", op.name);
  return {};
}

Result<std::string> OnnxGraphWriter::Write() {
  builder_.Input("input_ids", ElementType::kI64, {"batch", "sequence"});
  builder_.Input("position_ids", ElementType::kI64, {"batch", "sequence"});
  builder_.Input("attention_mask", ElementType::kI64, {"batch", "total"});
  for (const Op& op : graph_.ops())
    TENON_RETURN_IF_ERROR(WriteOp(op));
  if (graph_.outputs().empty())
    return Unsupported("a graph without outputs");
  return names_[graph_.outputs()[0]];
}

}  // namespace tenon
