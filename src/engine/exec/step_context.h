// StepContext: what a plan step sees while it runs, and PlanStep, the interface of all steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"
#include "engine/exec/batch.h"
#include "engine/exec/rotary_tables.h"
#include "engine/exec/step_blocks.h"
#include "engine/kv/kv_pool.h"
#include "graph/graph.h"
#include "hal/kernel_set.h"
#include "hal/thread_pool.h"

namespace tenon {

// A temporary of the graph at its place in the arena: `rows` rows of `row_bytes` bytes.
struct Operand {
  int64_t offset = 0;
  int64_t row_bytes = 0;
  int64_t columns = 0;
  DType dtype = DType::kF32;
  Symbol rows = Symbol::kTokens;
};

// Owns nothing; lives for one step. Threading: shared by the pool's workers, who write disjoint
// rows.
struct StepContext {
  ThreadPool& pool;
  std::byte* arena;           // temporaries, at the planner's offsets
  std::byte* workspace;       // shared by the workers of one plan step
  std::byte* worker_scratch;  // [threads] pieces of worker_scratch_bytes
  int64_t worker_scratch_bytes;
  const Batch& batch;
  KvPool& kv;
  const RotaryTables& rotary;
  const StepBlocks& step_blocks;  // filled for packed KV types only

  int64_t RowCount(Symbol symbol) const {
    return static_cast<int64_t>(symbol == Symbol::kOutputs ? batch.output_rows.size()
                                                           : batch.tokens.size());
  }
  std::byte* Row(const Operand& operand, int64_t row) const {
    return arena + operand.offset + row * operand.row_bytes;
  }
  float* FloatRow(const Operand& operand, int64_t row) const {
    return reinterpret_cast<float*>(Row(operand, row));
  }
  std::byte* Scratch(int worker) const { return worker_scratch + worker * worker_scratch_bytes; }
};

// One entry of the plan: a kernel with its arguments bound. Const and shared after planning.
class PlanStep {
 public:
  explicit PlanStep(std::string name) : name_(std::move(name)) {}
  virtual ~PlanStep() = default;
  PlanStep(const PlanStep&) = delete;
  PlanStep& operator=(const PlanStep&) = delete;

  // The graph op's name, "layer 3 attention".
  const std::string& name() const { return name_; }
  // What runs, for `inspect`: "linear u4s32m x3 avx2".
  virtual std::string Describe() const = 0;

  // Needs of a step with `tokens` rows: shared bytes, and bytes for each worker.
  virtual int64_t WorkspaceBytes(int64_t /*tokens*/) const { return 0; }
  virtual int64_t WorkerScratchBytes() const { return 0; }

  virtual Status Run(const StepContext& context) const = 0;

 private:
  std::string name_;
};

}  // namespace tenon
