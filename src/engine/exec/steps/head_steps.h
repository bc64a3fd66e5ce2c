// Steps that move columns of heads. Sources: graph ops `slice_heads` and `join_heads`
// (graph/ops/attrs.h).
#pragma once

#include <string>

#include "engine/exec/step_context.h"

namespace tenon {

class SliceHeadsStep final : public PlanStep {
 public:
  struct Args {
    SliceHeadsAttrs attrs;
    Operand x;
    Operand out;
  };
  SliceHeadsStep(std::string name, const Args& args) : PlanStep(std::move(name)), args_(args) {}

  std::string Describe() const override { return "copy columns of every head"; }
  Status Run(const StepContext& context) const override;

 private:
  Args args_;
};

class JoinHeadsStep final : public PlanStep {
 public:
  struct Args {
    JoinHeadsAttrs attrs;
    Operand a;
    Operand b;  // without columns: none
    Operand out;
  };
  JoinHeadsStep(std::string name, const Args& args) : PlanStep(std::move(name)), args_(args) {}

  std::string Describe() const override { return "put heads side by side"; }
  Status Run(const StepContext& context) const override;

 private:
  Args args_;
};

}  // namespace tenon
