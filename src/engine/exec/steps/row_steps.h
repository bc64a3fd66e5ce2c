// Steps that work on each row alone: norm, quantization, elementwise operations, rotation and the
// choice of rows. Sources: the graph ops of the same names (graph/ops/attrs.h).
#pragma once

#include <string>

#include "engine/exec/step_context.h"

namespace tenon {

class RmsNormStep final : public PlanStep {
 public:
  struct Args {
    RmsNormFn norm = nullptr;
    QuantizeRowFn quantize = nullptr;  // when out is quantized
    const float* weight = nullptr;     // [group]
    BinaryFn add = nullptr;            // when there is a residual
    int64_t group = 0;
    float eps = 0.0F;
    bool has_residual = false;
    Operand x;
    Operand residual;
    Operand out;
  };
  RmsNormStep(std::string name, const Args& args) : PlanStep(std::move(name)), args_(args) {}

  std::string Describe() const override;
  int64_t WorkerScratchBytes() const override;
  Status Run(const StepContext& context) const override;

 private:
  void RunRow(const StepContext& context, int64_t row, float* scratch) const;

  Args args_;
};

class LayerNormStep final : public PlanStep {
 public:
  struct Args {
    QuantizeRowFn quantize = nullptr;  // when out is quantized
    const float* weight = nullptr;     // [columns]
    const float* bias = nullptr;       // [columns]
    float eps = 0.0F;
    Operand x;
    Operand out;
  };
  LayerNormStep(std::string name, const Args& args) : PlanStep(std::move(name)), args_(args) {}

  std::string Describe() const override;
  int64_t WorkerScratchBytes() const override;
  Status Run(const StepContext& context) const override;

 private:
  Args args_;
};

// max(x, 0), and 0.5 x (1 + erf(x / sqrt(2))). As UnaryFn.
void ReluRow(const float* x, int64_t n, float* out);
void GeluErfRow(const float* x, int64_t n, float* out);

class QuantizeStep final : public PlanStep {
 public:
  struct Args {
    QuantizeRowFn quantize = nullptr;
    Operand x;
    Operand out;
  };
  QuantizeStep(std::string name, const Args& args) : PlanStep(std::move(name)), args_(args) {}

  std::string Describe() const override {
    return args_.out.dtype == DType::kActI8 ? "quantize to int8, groups of 16"
                                            : "quantize to int16, blocks of 32";
  }
  Status Run(const StepContext& context) const override;

 private:
  Args args_;
};

class BinaryStep final : public PlanStep {
 public:
  struct Args {
    BinaryFn function = nullptr;
    Operand a;
    Operand b;
    Operand out;
  };
  BinaryStep(std::string name, const Args& args) : PlanStep(std::move(name)), args_(args) {}

  std::string Describe() const override { return "elementwise, two inputs"; }
  Status Run(const StepContext& context) const override;

 private:
  Args args_;
};

class UnaryStep final : public PlanStep {
 public:
  struct Args {
    UnaryFn function = nullptr;  // null: scale by factor
    ScaleFn scale = nullptr;
    float factor = 1.0F;
    Operand x;
    Operand out;
  };
  UnaryStep(std::string name, const Args& args) : PlanStep(std::move(name)), args_(args) {}

  std::string Describe() const override { return "elementwise, one input"; }
  Status Run(const StepContext& context) const override;

 private:
  Args args_;
};

class SoftcapStep final : public PlanStep {
 public:
  struct Args {
    float cap = 0.0F;
    Operand x;
    Operand out;
  };
  SoftcapStep(std::string name, const Args& args) : PlanStep(std::move(name)), args_(args) {}

  std::string Describe() const override { return "cap * tanh(x / cap)"; }
  Status Run(const StepContext& context) const override;

 private:
  Args args_;
};

class RopeStep final : public PlanStep {
 public:
  struct Args {
    RopeFn rope = nullptr;
    int table = 0;  // of RotaryTables
    int64_t head_dim = 0;
    Operand x;
    Operand out;
  };
  RopeStep(std::string name, const Args& args) : PlanStep(std::move(name)), args_(args) {}

  std::string Describe() const override { return "rotary embedding"; }
  Status Run(const StepContext& context) const override;

 private:
  Args args_;
};

class SelectRowsStep final : public PlanStep {
 public:
  struct Args {
    SelectRowsAttrs attrs;
    Operand x;
    Operand out;
  };
  SelectRowsStep(std::string name, const Args& args) : PlanStep(std::move(name)), args_(args) {}

  std::string Describe() const override { return "copy the rows whose logits are wanted"; }
  Status Run(const StepContext& context) const override;

 private:
  void Pool(const StepContext& context, int64_t source, float* out) const;

  Args args_;
};

}  // namespace tenon
