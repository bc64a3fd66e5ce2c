// Steps of a router: the experts of each token and their weights, and rows times a gate of their
// own. Sources: graph ops `route` and `gate_rows` (graph/ops/attrs.h).
#pragma once

#include <span>
#include <string>

#include "engine/exec/step_context.h"

namespace tenon {

class RouteStep final : public PlanStep {
 public:
  struct Args {
    RouteAttrs attrs;
    const float* bias = nullptr;  // [experts] or null
    Operand x;                    // logits [N, experts]
    Operand out;                  // [N, experts]
  };
  RouteStep(std::string name, const Args& args) : PlanStep(std::move(name)), args_(args) {}

  std::string Describe() const override;
  int64_t WorkerScratchBytes() const override;
  Status Run(const StepContext& context) const override;

 private:
  // What one row needs beside its output; all [experts] but `groups`.
  struct Row {
    std::span<float> scores;
    std::span<float> choice;  // what experts are chosen by; minus infinity: not to be chosen
    std::span<float> work;
    std::span<float> groups;  // [groups]
  };
  Row RowOf(float* scratch) const;
  void Score(const float* logits, const Row& row) const;
  void KeepBestGroups(const Row& row) const;
  void Choose(const Row& row, float* out) const;

  Args args_;
};

class GateRowsStep final : public PlanStep {
 public:
  struct Args {
    ScaleFn scale = nullptr;
    Operand x;
    Operand gate;  // [N, 1]
    Operand out;
  };
  GateRowsStep(std::string name, const Args& args) : PlanStep(std::move(name)), args_(args) {}

  std::string Describe() const override { return "rows times the sigmoid of a gate"; }
  Status Run(const StepContext& context) const override;

 private:
  Args args_;
};

}  // namespace tenon
