// PluginStep: an operator of a plug-in over the rows of a step. Source: the graph op "plugin".
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/exec/step_context.h"
#include "graph/plugin/plugin_call.h"

namespace tenon {

// Calls the operator once for all rows, on the thread that runs the step. A call that fails, or
// whose shape function now says another shape than when the graph was built, fails the step.
class PluginStep final : public PlanStep {
 public:
  // Ids of the batch.
  enum class Ids : uint8_t { kNone, kTokens, kPositions, kOutputRows };

  struct Input {
    std::vector<Dim> shape;
    Ids ids = Ids::kNone;
    const float* weight = nullptr;   // of a weight
    std::optional<Operand> operand;  // of a temporary
  };
  struct Args {
    PluginAttrs attrs;
    std::vector<Input> inputs;
    std::vector<Operand> outputs;
  };
  PluginStep(std::string name, Args args) : PlanStep(std::move(name)), args_(std::move(args)) {}

  std::string Describe() const override;
  Status Run(const StepContext& context) const override;

 private:
  // What a call refers to, by input or output.
  using Shapes = std::vector<std::vector<int64_t>>;

  TenonTensor InputOf(const StepContext& context, size_t i,
                      const std::vector<int64_t>& shape) const;
  TenonTensor OutputOf(const StepContext& context, size_t i,
                       const std::vector<int64_t>& shape) const;
  Status Call(const StepContext& context, const PluginNode& node) const;

  Args args_;
};

}  // namespace tenon
