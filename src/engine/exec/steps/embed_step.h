// EmbedStep: rows of an embedding table, decoded from the file as they are needed.
#pragma once

#include <string>

#include "engine/exec/step_context.h"
#include "engine/plan/weight_source.h"

namespace tenon {

// What the rows are chosen by.
enum class EmbedIds : uint8_t { kTokens, kPositions };

// Source: graph op `embed` (graph/ops/attrs.h).
class EmbedStep final : public PlanStep {
 public:
  struct Args {
    const WeightSource* weights = nullptr;  // outlives the plan
    std::string table;
    DType dtype = DType::kF32;
    int64_t vocab = 0;  // rows of the table
    EmbedAttrs attrs;
    EmbedIds ids = EmbedIds::kTokens;
    ScaleFn scale_row = nullptr;
    Operand out;  // F32 [N, D]
  };
  EmbedStep(std::string name, Args args) : PlanStep(std::move(name)), args_(std::move(args)) {}

  std::string Describe() const override;
  int64_t WorkerScratchBytes() const override;
  // kInvalidArgument for a token id outside the table; kIo when the file can't be read.
  Status Run(const StepContext& context) const override;

 private:
  Result<int64_t> TableRow(const StepContext& context, int64_t row) const;
  Status FillRow(const StepContext& context, int64_t row, std::byte* scratch) const;

  Args args_;
};

}  // namespace tenon
