// PlanCompiler: from each graph op to the step that runs it. Used by ExecutionPlan::Compile only.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "engine/plan/execution_plan.h"

namespace tenon {

class PlanCompiler {
 public:
  struct Inputs {
    const Graph& graph;
    const WeightSource& source;
    const WeightStore& weights;
    const KernelSet& kernels;
  };
  PlanCompiler(const Inputs& inputs, ExecutionPlan& plan) : in_(inputs), plan_(plan) {}

  Status Run();

 private:
  Status CheckWeights(const Op& op) const;
  void FindHidden();

  using StepResult = Result<std::unique_ptr<PlanStep>>;

  StepResult Lower(const Op& op, const EmbedAttrs& attrs);
  StepResult Lower(const Op& op, const RmsNormAttrs& attrs);
  StepResult Lower(const Op& op, const LinearAttrs& attrs);
  StepResult Lower(const Op& op, const QuantizeAttrs& attrs);
  StepResult Lower(const Op& op, const AddAttrs& attrs);
  StepResult Lower(const Op& op, const MulAttrs& attrs);
  StepResult Lower(const Op& op, const ScaleAttrs& attrs);
  StepResult Lower(const Op& op, const SiluAttrs& attrs);
  StepResult Lower(const Op& op, const GeluAttrs& attrs);
  StepResult Lower(const Op& op, const SoftcapAttrs& attrs);
  StepResult Lower(const Op& op, const RopeAttrs& attrs);
  StepResult Lower(const Op& op, const AttentionAttrs& attrs);
  StepResult Lower(const Op& op, const SelectRowsAttrs& attrs);
  StepResult Lower(const Op& op, const RouteAttrs& attrs);
  StepResult Lower(const Op& op, const ExpertsAttrs& attrs);
  StepResult Lower(const Op& op, const GateRowsAttrs& attrs);
  StepResult Lower(const Op& op, const LayerNormAttrs& attrs);
  StepResult Lower(const Op& op, const ReluAttrs& attrs);
  StepResult Lower(const Op& op, const SliceHeadsAttrs& attrs);
  StepResult Lower(const Op& op, const JoinHeadsAttrs& attrs);
  StepResult Lower(const Op& op, const PluginAttrs& attrs);
  StepResult Lower(const Op& op, const PermuteAttrs& attrs);

  StepResult LowerBinary(const Op& op, BinaryFn function) const;
  StepResult LowerUnary(const Op& op, UnaryFn function) const;
  Operand OperandOf(ValueId id) const;
  Operand Input(const Op& op, size_t index) const { return OperandOf(op.inputs[index]); }
  Operand Output(const Op& op, size_t index) const { return OperandOf(op.outputs[index]); }
  const std::string& WeightName(const Op& op, size_t index) const;
  std::span<const float> Vector(const Op& op, size_t index) const;
  QuantizeRowFn QuantizerFor(const Operand& out) const;
  // For rows of this kind, by the plan's rounding.
  QuantizeRowFn QuantizerOf(ActivationForm form, Symbol rows) const;
  QuantizeBlockFn BlockQuantizerOf(ActivationForm form) const;
  bool FeedsRouter(const Op& op) const;
  RopeFn RopeKernel(const RopeParams& rope) const;

  Inputs in_;
  ExecutionPlan& plan_;
};

}  // namespace tenon
