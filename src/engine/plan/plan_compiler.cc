#include "engine/plan/plan_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "base/check.h"
#include "engine/exec/steps/attention_step.h"
#include "engine/exec/steps/embed_step.h"
#include "engine/exec/steps/experts_step.h"
#include "engine/exec/steps/head_steps.h"
#include "engine/exec/steps/linear_step.h"
#include "engine/exec/steps/permute_step.h"
#include "engine/exec/steps/plugin_step.h"
#include "engine/exec/steps/route_step.h"
#include "engine/exec/steps/row_steps.h"
#include "graph/step_inputs.h"

namespace tenon {
namespace {

PluginStep::Ids IdsOf(const Value& value) {
  if (value.kind != ValueKind::kInput)
    return PluginStep::Ids::kNone;
  if (value.name == kPositionsInput)
    return PluginStep::Ids::kPositions;
  return value.name == kRowsInput ? PluginStep::Ids::kOutputRows : PluginStep::Ids::kTokens;
}

ActivationForm FormOf(DType dtype) {
  if (dtype == DType::kActI16)
    return ActivationForm::kInt16;
  return dtype == DType::kActI8 ? ActivationForm::kInt8 : ActivationForm::kFloat;
}

}  // namespace

// Slices of a weight are for ranks and experts, which have no store yet; and one linear's input has
// one form, so its weights must all be quantized or all be float.
Status PlanCompiler::CheckWeights(const Op& op) const {
  for (ValueId input : op.inputs) {
    const Value& value = in_.graph.value(input);
    if (!value.weight.has_value())
      continue;
    const WeightRef& weight = *value.weight;
    TENON_ASSIGN_OR_RETURN(const WeightView view, in_.source.Find(weight.tensor));
    if (weight.row_begin != 0 || (value.shape.size() > 1 && weight.row_end != view.rows))
      return Unsupported("a slice of a weight's rows", weight.tensor);
  }
  const auto* linear = std::get_if<LinearAttrs>(&op.attrs);
  for (int64_t i = 1; linear != nullptr && i < linear->weight_count; ++i) {
    const Value& first = in_.graph.value(op.inputs[1]);
    const Value& other = in_.graph.value(op.inputs[static_cast<size_t>(1 + i)]);
    const int64_t k = first.shape.back().extent;
    if (ActivationTypeFor(first.dtype, k) != ActivationTypeFor(other.dtype, k))
      return Unsupported("weights of two classes (quantized, 16 bits, F32) in one linear", op.name);
  }
  return {};
}

Status PlanCompiler::Run() {
  for (const Op& op : in_.graph.ops()) {
    TENON_RETURN_IF_ERROR(CheckWeights(op));
    TENON_ASSIGN_OR_RETURN(
        auto step, std::visit([&](const auto& attrs) { return Lower(op, attrs); }, op.attrs));
    plan_.workspace_bytes_ =
        std::max(plan_.workspace_bytes_, step->WorkspaceBytes(plan_.options_.max_tokens));
    plan_.worker_scratch_bytes_ = std::max(plan_.worker_scratch_bytes_, step->WorkerScratchBytes());
    plan_.steps_.push_back(std::move(step));
  }
  for (const ValueId output : in_.graph.outputs())
    plan_.outputs_.push_back(OperandOf(output));
  plan_.logits_ = plan_.outputs_.front();
  FindHidden();
  return {};
}

void PlanCompiler::FindHidden() {
  if (in_.graph.outputs().size() < 2)
    return;
  const ValueId hidden = in_.graph.outputs()[1];
  plan_.hidden_ = OperandOf(hidden);
  const OpId producer = in_.graph.value(hidden).producer;
  plan_.hidden_steps_ = producer.valid() ? producer.index() + 1 : plan_.steps_.size();
}

Operand PlanCompiler::OperandOf(ValueId id) const {
  const Value& value = in_.graph.value(id);
  Operand operand;
  operand.offset = plan_.memory_.values[id.index()].offset;
  operand.dtype = value.dtype;
  operand.columns = value.shape.size() > 1 ? value.shape.back().extent : 1;
  operand.row_bytes = DTypeRowBytes(value.dtype, operand.columns);
  operand.rows = value.shape.front().symbol;
  return operand;
}

const std::string& PlanCompiler::WeightName(const Op& op, size_t index) const {
  const Value& value = in_.graph.value(op.inputs[index]);
  TENON_CHECK(value.weight.has_value());
  return value.weight->tensor;
}

std::span<const float> PlanCompiler::Vector(const Op& op, size_t index) const {
  return in_.weights.FindVector(WeightName(op, index));
}

QuantizeRowFn PlanCompiler::QuantizerFor(const Operand& out) const {
  return QuantizerOf(FormOf(out.dtype), out.rows);
}

QuantizeRowFn PlanCompiler::QuantizerOf(ActivationForm form, Symbol rows) const {
  if (form == ActivationForm::kFloat)
    return nullptr;
  if (form == ActivationForm::kInt16)
    return in_.kernels.quantize_wide_row;
  const bool per_token = plan_.options_.rounding == ActivationRounding::kPerTokenKernels;
  return per_token && rows != Symbol::kOutputs ? in_.kernels.quantize_row_per_token
                                               : in_.kernels.quantize_row;
}

QuantizeBlockFn PlanCompiler::BlockQuantizerOf(ActivationForm form) const {
  if (form == ActivationForm::kFloat)
    return nullptr;
  return form == ActivationForm::kInt16 ? in_.kernels.quantize_wide_block
                                        : in_.kernels.quantize_block;
}

bool PlanCompiler::FeedsRouter(const Op& op) const {
  return std::any_of(in_.graph.ops().begin(), in_.graph.ops().end(), [&](const Op& other) {
    return std::holds_alternative<RouteAttrs>(other.attrs) && other.inputs[0] == op.outputs[0];
  });
}

RopeFn PlanCompiler::RopeKernel(const RopeParams& rope) const {
  return rope.interleaved ? in_.kernels.rope_interleaved : in_.kernels.rope_half;
}

PlanCompiler::StepResult PlanCompiler::Lower(const Op& op, const EmbedAttrs& attrs) {
  EmbedStep::Args args;
  args.weights = &in_.source;
  args.table = WeightName(op, 1);
  TENON_ASSIGN_OR_RETURN(const WeightView view, in_.source.Find(args.table));
  args.dtype = view.dtype;
  args.vocab = view.rows;
  args.attrs = attrs;
  args.ids = in_.graph.value(op.inputs[0]).name == kPositionsInput ? EmbedIds::kPositions
                                                                   : EmbedIds::kTokens;
  args.scale_row = in_.kernels.scale;
  args.out = Output(op, 0);
  return std::unique_ptr<PlanStep>(std::make_unique<EmbedStep>(op.name, std::move(args)));
}

PlanCompiler::StepResult PlanCompiler::Lower(const Op& op, const RmsNormAttrs& attrs) {
  RmsNormStep::Args args;
  args.norm = in_.kernels.rms_norm;
  args.weight = Vector(op, 1).data();
  args.add = in_.kernels.add;
  args.group = attrs.group;
  args.eps = attrs.eps;
  args.has_residual = attrs.add_residual;
  args.x = Input(op, 0);
  if (attrs.add_residual)
    args.residual = Input(op, 2);
  args.out = Output(op, 0);
  args.quantize = QuantizerFor(args.out);
  return std::unique_ptr<PlanStep>(std::make_unique<RmsNormStep>(op.name, args));
}

PlanCompiler::StepResult PlanCompiler::Lower(const Op& op, const LinearAttrs& attrs) {
  LinearStep::Args args;
  args.x = Input(op, 0);
  const bool is_head = args.x.rows == Symbol::kOutputs;
  if (plan_.options_.rounding == ActivationRounding::kPerTokenInt8 && !is_head && !FeedsRouter(op))
    args.rounding = LinearStep::Rounding::kPerTokenInt8;
  args.epilogue = attrs.epilogue;
  const auto weights = static_cast<size_t>(attrs.weight_count);
  for (size_t i = 0; i < weights; ++i) {
    LinearStep::Segment segment;
    segment.matrix = in_.weights.FindMatrix(WeightName(op, 1 + i));
    TENON_CHECK(segment.matrix != nullptr);
    if (attrs.has_bias)
      segment.bias = Vector(op, 1 + weights + i).data();
    segment.out = Output(op, std::min(i, op.outputs.size() - 1));
    args.segments.push_back(segment);
  }
  if (attrs.epilogue == Epilogue::kAddResidual)
    args.residual = OperandOf(op.inputs.back());
  args.gate = attrs.epilogue == Epilogue::kGeluMul ? in_.kernels.gelu_mul : in_.kernels.silu_mul;
  args.add = in_.kernels.add;
  args.quantize = QuantizerOf(FormFor(args.segments.front().matrix->kind), args.x.rows);
  args.quantize_block = BlockQuantizerOf(FormOf(args.segments.front().out.dtype));
  return std::unique_ptr<PlanStep>(std::make_unique<LinearStep>(op.name, std::move(args)));
}

PlanCompiler::StepResult PlanCompiler::Lower(const Op& op, const QuantizeAttrs& /*attrs*/) {
  const Operand out = Output(op, 0);
  const QuantizeStep::Args args{QuantizerFor(out), Input(op, 0), out};
  return std::unique_ptr<PlanStep>(std::make_unique<QuantizeStep>(op.name, args));
}

PlanCompiler::StepResult PlanCompiler::LowerBinary(const Op& op, BinaryFn function) const {
  const BinaryStep::Args args{function, Input(op, 0), Input(op, 1), Output(op, 0)};
  return std::unique_ptr<PlanStep>(std::make_unique<BinaryStep>(op.name, args));
}

PlanCompiler::StepResult PlanCompiler::LowerUnary(const Op& op, UnaryFn function) const {
  const UnaryStep::Args args{function, nullptr, 1.0F, Input(op, 0), Output(op, 0)};
  return std::unique_ptr<PlanStep>(std::make_unique<UnaryStep>(op.name, args));
}

PlanCompiler::StepResult PlanCompiler::Lower(const Op& op, const AddAttrs& /*attrs*/) {
  return LowerBinary(op, in_.kernels.add);
}

PlanCompiler::StepResult PlanCompiler::Lower(const Op& op, const MulAttrs& /*attrs*/) {
  return LowerBinary(op, in_.kernels.mul);
}

PlanCompiler::StepResult PlanCompiler::Lower(const Op& op, const ScaleAttrs& attrs) {
  const UnaryStep::Args args{nullptr, in_.kernels.scale, attrs.factor, Input(op, 0), Output(op, 0)};
  return std::unique_ptr<PlanStep>(std::make_unique<UnaryStep>(op.name, args));
}

PlanCompiler::StepResult PlanCompiler::Lower(const Op& op, const SiluAttrs& /*attrs*/) {
  return LowerUnary(op, in_.kernels.silu);
}

PlanCompiler::StepResult PlanCompiler::Lower(const Op& op, const GeluAttrs& attrs) {
  return LowerUnary(op, attrs.exact ? GeluErfRow : in_.kernels.gelu);
}

PlanCompiler::StepResult PlanCompiler::Lower(const Op& op, const SoftcapAttrs& attrs) {
  const SoftcapStep::Args args{attrs.cap, Input(op, 0), Output(op, 0)};
  return std::unique_ptr<PlanStep>(std::make_unique<SoftcapStep>(op.name, args));
}

PlanCompiler::StepResult PlanCompiler::Lower(const Op& op, const RopeAttrs& attrs) {
  RopeStep::Args args;
  args.rope = RopeKernel(attrs.rope);
  const bool has_factors = op.inputs.size() > 2;
  args.table =
      plan_.rotary_.Add(attrs.rope, has_factors ? Vector(op, 2) : std::span<const float>());
  args.head_dim = attrs.head_dim;
  args.x = Input(op, 0);
  args.out = Output(op, 0);
  return std::unique_ptr<PlanStep>(std::make_unique<RopeStep>(op.name, args));
}

PlanCompiler::StepResult PlanCompiler::Lower(const Op& op, const AttentionAttrs& attrs) {
  // The kernels' limits (hal/kernel_set.h).
  if (attrs.head_dim % 8 != 0 || attrs.head_dim > 256) {
    return Unsupported(
        fmt::format("heads of {} values; attention takes multiples of 8 up to 256", attrs.head_dim),
        op.name);
  }
  AttentionStep::Args args;
  args.attrs = attrs;
  args.kv = AttentionStep::KvKernels::For(plan_.options_.kv_type, in_.kernels);
  args.q = Input(op, 0);
  args.k = Input(op, 1);
  args.v = Input(op, 2);
  args.out = Output(op, 0);
  args.quantize_block = BlockQuantizerOf(FormOf(args.out.dtype));
  args.max_context = plan_.options_.max_context;
  if (attrs.fused_rope) {
    const bool has_factors = op.inputs.size() > 4;
    args.rope = RopeKernel(attrs.rope);
    args.rotary_table =
        plan_.rotary_.Add(attrs.rope, has_factors ? Vector(op, 4) : std::span<const float>());
  }
  return std::unique_ptr<PlanStep>(std::make_unique<AttentionStep>(op.name, args));
}

PlanCompiler::StepResult PlanCompiler::Lower(const Op& op, const SelectRowsAttrs& attrs) {
  const SelectRowsStep::Args args{attrs, Input(op, 0), Output(op, 0)};
  return std::unique_ptr<PlanStep>(std::make_unique<SelectRowsStep>(op.name, args));
}

PlanCompiler::StepResult PlanCompiler::Lower(const Op& op, const RouteAttrs& attrs) {
  const float* bias = op.inputs.size() > 1 ? Vector(op, 1).data() : nullptr;
  const RouteStep::Args args{attrs, bias, Input(op, 0), Output(op, 0)};
  return std::unique_ptr<PlanStep>(std::make_unique<RouteStep>(op.name, args));
}

PlanCompiler::StepResult PlanCompiler::Lower(const Op& op, const ExpertsAttrs& attrs) {
  ExpertsStep::Args args;
  args.attrs = attrs;
  args.gate = in_.weights.FindMatrix(WeightName(op, 2));
  args.up = in_.weights.FindMatrix(WeightName(op, 3));
  args.down = in_.weights.FindMatrix(WeightName(op, 4));
  TENON_CHECK(args.gate != nullptr && args.up != nullptr && args.down != nullptr);
  args.activate =
      attrs.activation == Epilogue::kGeluMul ? in_.kernels.gelu_mul : in_.kernels.silu_mul;
  args.x = Input(op, 0);
  args.quantize = QuantizerOf(FormFor(args.gate->kind), args.x.rows);
  args.quantize_middle = QuantizerOf(FormFor(args.down->kind), args.x.rows);
  args.quantize_block = BlockQuantizerOf(FormFor(args.down->kind));
  if (plan_.options_.rounding == ActivationRounding::kPerTokenInt8)
    args.rounding = ExpertsStep::Rounding::kFloatRows;
  else if (plan_.options_.rounding == ActivationRounding::kPerTokenKernels)
    args.rounding = ExpertsStep::Rounding::kWholeRows;
  args.route = Input(op, 1);
  args.out = Output(op, 0);
  return std::unique_ptr<PlanStep>(std::make_unique<ExpertsStep>(op.name, args));
}

PlanCompiler::StepResult PlanCompiler::Lower(const Op& op, const GateRowsAttrs& /*attrs*/) {
  const GateRowsStep::Args args{in_.kernels.scale, Input(op, 0), Input(op, 1), Output(op, 0)};
  return std::unique_ptr<PlanStep>(std::make_unique<GateRowsStep>(op.name, args));
}

PlanCompiler::StepResult PlanCompiler::Lower(const Op& op, const LayerNormAttrs& attrs) {
  LayerNormStep::Args args;
  args.weight = Vector(op, 1).data();
  args.bias = Vector(op, 2).data();
  args.eps = attrs.eps;
  args.x = Input(op, 0);
  args.out = Output(op, 0);
  args.quantize = QuantizerFor(args.out);
  return std::unique_ptr<PlanStep>(std::make_unique<LayerNormStep>(op.name, args));
}

PlanCompiler::StepResult PlanCompiler::Lower(const Op& op, const ReluAttrs& /*attrs*/) {
  return LowerUnary(op, ReluRow);
}

PlanCompiler::StepResult PlanCompiler::Lower(const Op& op, const SliceHeadsAttrs& attrs) {
  const SliceHeadsStep::Args args{attrs, Input(op, 0), Output(op, 0)};
  return std::unique_ptr<PlanStep>(std::make_unique<SliceHeadsStep>(op.name, args));
}

PlanCompiler::StepResult PlanCompiler::Lower(const Op& op, const JoinHeadsAttrs& attrs) {
  const Operand second = op.inputs.size() > 1 ? Input(op, 1) : Operand();
  const JoinHeadsStep::Args args{attrs, Input(op, 0), second, Output(op, 0)};
  return std::unique_ptr<PlanStep>(std::make_unique<JoinHeadsStep>(op.name, args));
}

PlanCompiler::StepResult PlanCompiler::Lower(const Op& op, const PluginAttrs& attrs) {
  PluginStep::Args args;
  args.attrs = attrs;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const Value& value = in_.graph.value(op.inputs[i]);
    PluginStep::Input input;
    input.shape = value.shape;
    input.ids = IdsOf(value);
    if (value.kind == ValueKind::kWeight)
      input.weight = Vector(op, i).data();
    else if (value.kind == ValueKind::kTemporary)
      input.operand = Input(op, i);
    args.inputs.push_back(std::move(input));
  }
  for (size_t i = 0; i < op.outputs.size(); ++i)
    args.outputs.push_back(Output(op, i));
  return std::unique_ptr<PlanStep>(std::make_unique<PluginStep>(op.name, std::move(args)));
}

PlanCompiler::StepResult PlanCompiler::Lower(const Op& op, const PermuteAttrs& /*attrs*/) {
  PermuteStep::Args args;
  TENON_ASSIGN_OR_RETURN(args.order, ReadColumnOrder(Vector(op, 1), WeightName(op, 1)));
  args.x = Input(op, 0);
  args.out = Output(op, 0);
  args.quantize = QuantizerFor(args.out);
  // Without weights (a plan of sizes) there is no order; such a plan does not run.
  args.order.resize(static_cast<size_t>(args.x.columns));
  return std::unique_ptr<PlanStep>(std::make_unique<PermuteStep>(op.name, std::move(args)));
}

}  // namespace tenon
