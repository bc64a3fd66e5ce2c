// ExecutionPlan: the flat list of kernels that a step runs, with arguments and arena offsets bound.
//
// Made from an optimised graph by liveness-based memory planning; kernels are chosen here and never
// in the loop. The same plan serves prefill, decode and any mix of them. Owns its steps; points
// into the WeightStore and WeightSource, which must outlive it. Threading: const after Compile, but
// `rotary` which is filled once for each step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/exec/rotary_tables.h"
#include "engine/exec/step_context.h"
#include "engine/plan/weight_store.h"
#include "graph/graph.h"
#include "graph/memory_plan.h"
#include "hal/kernel_set.h"

namespace tenon {

// How linears take their inputs, but for the output head and routers of experts.
enum class ActivationRounding : uint8_t {
  kNone,  // as they are, or for integer kernels with a scale for each group of 16
  // Rounded to 8 bits with one dynamic scale for each token (quant/activation_round.h), then
  // multiplied in float: what integer kernels should give, for the reference mode.
  kPerTokenInt8,
  // The same for integer kernels: W8A8 and W4A8 as a file asks for it.
  kPerTokenKernels,
};

struct PlanOptions {
  int64_t max_tokens = 512;  // N: tokens in one step at most
  int64_t max_outputs = 32;  // R: rows of logits in one step at most
  KvType kv_type = KvType::kF16;
  int64_t max_context = 4096;  // tokens of one sequence at most
  // Sequences that can be in the cache at the same time if it is of a packed type: each needs the
  // f16 form of some blocks (engine/exec/step_blocks.h).
  int64_t max_sequences = 32;
  ActivationRounding rounding = ActivationRounding::kNone;
};

class ExecutionPlan {
 public:
  // Weights that the ops of `graph` use, by how they are used.
  static WeightStore::Names WeightNames(const Graph& graph);

  // A plan over a WeightStore that is prepared but not loaded may be printed and measured, not run.
  static Result<ExecutionPlan> Compile(const Graph& graph, const WeightSource& source,
                                       const WeightStore& weights, const KernelSet& kernels,
                                       const PlanOptions& options);

  const std::vector<std::unique_ptr<PlanStep>>& steps() const { return steps_; }
  const PlanOptions& options() const { return options_; }
  // The graph's first output: F32 [R, columns].
  const Operand& logits() const { return logits_; }
  // Its second output: the input of the output head, F32 [R, columns]; 0 columns without one. It is
  // there after the first `hidden_steps()` steps.
  const Operand& hidden() const { return hidden_; }
  size_t hidden_steps() const { return hidden_steps_; }
  // All outputs of the graph, in its order.
  const std::vector<Operand>& outputs() const { return outputs_; }
  RotaryTables& rotary() { return rotary_; }
  const RotaryTables& rotary() const { return rotary_; }

  int64_t arena_bytes() const { return memory_.peak_bytes; }
  // Without reuse of memory between temporaries; what planning saved is the difference.
  int64_t unshared_bytes() const { return memory_.unshared_bytes; }
  int64_t workspace_bytes() const { return workspace_bytes_; }
  int64_t worker_scratch_bytes() const { return worker_scratch_bytes_; }
  // All memory that running takes beside weights and KV cache.
  int64_t TotalBytes(int threads) const;

  // One line for each step: name, kernel, where its output lies.
  std::string ToText() const;

 private:
  friend class PlanCompiler;

  PlanOptions options_;
  std::vector<std::unique_ptr<PlanStep>> steps_;
  MemoryPlan memory_;
  RotaryTables rotary_;
  std::vector<Operand> outputs_;
  Operand logits_;
  Operand hidden_;
  size_t hidden_steps_ = 0;
  int64_t workspace_bytes_ = 0;
  int64_t worker_scratch_bytes_ = 0;
};

}  // namespace tenon
