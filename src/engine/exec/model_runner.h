// ModelRunner: one model ready to run: its optimised graph, packed weights, plan, KV pool and
// working memory. A step takes a ragged batch of tokens and gives logits.
//
// Prepare decides everything and reads no weights, so that needs can be told before memory is
// spent; Load reserves and touches all memory, so that no later request can fail for lack of it.
// Owns all but the WeightSource and the ThreadPool, which must outlive it. Threading: Step from one
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/exec/batch.h"
#include "engine/exec/step_blocks.h"
#include "engine/kv/kv_pool.h"
#include "engine/plan/execution_plan.h"
#include "engine/plan/weight_source.h"
#include "engine/plan/weight_store.h"
#include "graph/graph.h"
#include "graph/passes/optimize.h"
#include "hal/kernel_set.h"
#include "hal/thread_pool.h"

namespace tenon {

struct RunnerOptions {
  PlanOptions plan;
  PassOptions passes;
  // Capacity of the KV pool, over all sequences; rounded up to blocks. Sets plan.max_context.
  int64_t kv_tokens = 4096;
  WeightRounding rounding = WeightRounding::kNone;
  // Where it has a directory, Load takes no cache and weights need not all be in memory.
  WeightSpill spill;
  // The pool of another runner with the same KV shape, for a draft that reads that one's cache:
  // kv() is then this pool, and kv_tokens must be that runner's. It outlives this runner. Null: a
  // pool of its own.
  KvPool* shared_kv = nullptr;
};

// Bytes that Load reserves, and pages of the file that are resident for a moment while packing.
struct MemoryNeeds {
  int64_t weights = 0;  // those that are in memory at a time
  int64_t kv = 0;
  int64_t workspace = 0;
  int64_t load_transient = 0;
  int64_t total() const { return weights + kv + workspace + load_transient; }
};

// What a step is run for. Without logits the output head, a good part of a small model, is left
// out.
enum class StepOutputs : uint8_t { kLogits, kHiddenOnly };

// Looks at the temporaries between two steps of the plan; for what keeps or replaces some of them.
class StepTap {
 public:
  virtual ~StepTap() = default;
  // Before plan step `step`; `arena` holds the plan's temporaries.
  virtual void Before(size_t step, const Batch& batch, const std::byte* arena) = 0;
};

class ModelRunner {
 public:
  static Result<std::unique_ptr<ModelRunner>> Prepare(Graph graph, const WeightSource& source,
                                                      const KernelSet& kernels,
                                                      const RunnerOptions& options);

  MemoryNeeds Needs(int threads) const;
  // The same with this spill in place of the options'.
  MemoryNeeds NeedsWith(int threads, const WeightSpill& spill) const;

  // Fails with kResourceExhausted, giving needed and available bytes, when `available_bytes` (0:
  // unknown) is too little. With `weight_cache` (null: none) packed weights are taken from there,
  // or left there; it does not outlive the runner.
  Status Load(ThreadPool& pool, int64_t available_bytes, WeightCache* weight_cache = nullptr);

  // Steps from now on use these threads. REQUIRES: loaded, with a pool of as many threads.
  void UsePool(ThreadPool& pool);

  // Runs the batch and writes its keys and values into the pool's blocks. The logits [R, vocab] are
  // valid until the next step. Fails, naming the field, when the batch is larger than the plan's
  // limits, or an index in it points outside; then no cache block was changed.
  // With kHiddenOnly the result is empty. REQUIRES: loaded.
  Result<std::span<const float>> Step(const Batch& batch,
                                      StepOutputs outputs = StepOutputs::kLogits);

  // Runs steps [first, last) of the plan on temporaries that the caller has put into arena();
  // writes the KV of the attention among them. For what rebuilds some layers' KV. REQUIRES: loaded.
  Status RunSteps(const Batch& batch, size_t first, size_t last);
  std::byte* arena() { return arena_.data(); }
  // Called in every Step; null: none. It must outlive its use.
  void SetTap(StepTap* tap) { tap_ = tap; }

  // The hidden states [R, hidden_size] after the final norm, of the last step's output rows; valid
  // until the next step. Empty when the graph does not give them.
  std::span<const float> hidden() const { return hidden_; }

  // Output `index` of the graph after the last step: F32 [its rows, columns]; valid until the next
  // step. REQUIRES: the step ran with kLogits, the graph has that output and it is F32.
  std::span<const float> Output(size_t index) const;

  const Graph& source_graph() const { return source_graph_; }
  const Graph& optimized_graph() const { return optimized_graph_; }
  const OptimizeReport& optimize_report() const { return report_; }
  const ExecutionPlan& plan() const { return plan_; }
  const RunnerOptions& options() const { return options_; }
  const KvConfig& kv_config() const { return kv_config_; }
  KvPool& kv() { return options_.shared_kv != nullptr ? *options_.shared_kv : *kv_; }
  int64_t vocab_size() const { return plan_.logits().columns; }
  int64_t hidden_size() const { return plan_.hidden().columns; }
  // Ids below this are tokens. The same as vocab_size() where the graph gives logits.
  int64_t token_count() const { return token_count_; }
  // The graph encodes texts: a sequence must be in one step as a whole, and its last row's result,
  // in place of logits, is its vector.
  bool is_encoder() const { return is_encoder_; }
  int64_t weight_bytes() const { return weights_.bytes(); }

 private:
  ModelRunner(Graph graph, const WeightSource& source, const KernelSet& kernels,
              const RunnerOptions& options);
  Status PrepareKv();
  Status CheckSharedKv() const;
  Status ReserveMemory();
  Status CheckBatch(const Batch& batch) const;
  StepContext ContextOf(const Batch& batch);
  Status RunStep(size_t index, const StepContext& context) const;
  // The matrices that an op reads.
  std::vector<const PackedMatrix*> MatricesOf(const Op& op) const;

  const WeightSource& source_;
  KernelSet kernels_;
  RunnerOptions options_;
  Graph source_graph_;
  Graph optimized_graph_;
  OptimizeReport report_;
  WeightStore weights_;
  ExecutionPlan plan_;
  KvConfig kv_config_;
  KvLayout kv_layout_;
  std::optional<KvPool> kv_;
  StepBlocks step_blocks_;
  ThreadPool* pool_ = nullptr;
  Buffer arena_;
  Buffer workspace_;
  Buffer worker_scratch_;
  std::span<const float> hidden_;
  // By step of the plan, those that may leave memory after it; empty without a spill.
  std::vector<std::vector<const PackedMatrix*>> spilled_;
  size_t step_tokens_ = 0;   // N of the last step
  size_t step_outputs_ = 0;  // R of the last step
  int64_t token_count_ = 0;
  bool is_encoder_ = false;
  StepTap* tap_ = nullptr;
};

}  // namespace tenon
