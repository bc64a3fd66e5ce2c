// AttentionStep: rotates queries and keys (when fused), writes keys and values into the paged
// cache, then lets every token attend over its sequence's blocks.
//
// Two parallel passes with a barrier between them: tokens of one step see each other's keys.
// Source: graph op `attention` (graph/ops/attrs.h).
#pragma once

#include <string>

#include "engine/exec/step_context.h"

namespace tenon {

class AttentionStep final : public PlanStep {
 public:
  struct Args {
    AttentionAttrs attrs;
    KvStoreFn store = nullptr;
    AttentionFn attend = nullptr;
    RopeFn rope = nullptr;             // with fused_rope
    int rotary_table = 0;              // with fused_rope
    QuantizeRowFn quantize = nullptr;  // when out is kActI8
    Operand q;
    Operand k;
    Operand v;
    Operand out;
  };
  AttentionStep(std::string name, const Args& args) : PlanStep(std::move(name)), args_(args) {}

  std::string Describe() const override;
  int64_t WorkerScratchBytes() const override;
  Status Run(const StepContext& context) const override;

 private:
  void StoreToken(const StepContext& context, int64_t row, float* scratch) const;
  void AttendHead(const StepContext& context, int64_t row, int64_t kv_head, float* scratch) const;
  void StoreOutput(const StepContext& context, int64_t row, int64_t kv_head,
                   const float* values) const;
  const float* Rotated(const StepContext& context, const float* x, int64_t heads, int64_t row,
                       float* scratch) const;
  int32_t Layer() const { return static_cast<int32_t>(args_.attrs.layer); }
  int64_t GroupHeads() const { return args_.attrs.heads / args_.attrs.kv_heads; }

  Args args_;
};

}  // namespace tenon
