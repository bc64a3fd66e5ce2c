// AttentionStep: rotates queries and keys (when fused), writes keys and values into the paged
// cache, then lets every token attend over its sequence's blocks.
//
// Two parallel passes with a barrier between them: tokens of one step see each other's keys. A
// sequence's keys are visited in spans of kSpanTokens from position 0, each with a softmax of its
// own, joined in ascending order. Where spans end depends on nothing but the position, so it is all
// the same whether one worker visits them in turn (prefill) or several share them (decode).
// Source: graph op `attention` (graph/ops/attrs.h).
#pragma once

#include <string>

#include "engine/exec/step_context.h"

namespace tenon {

class AttentionStep final : public PlanStep {
 public:
  // What writes and reads the cache.
  struct KvKernels {
    KvType type = KvType::kF16;
    KvStoreFn store = nullptr;  // to kF16 if the type is packed
    KvSealFn seal = nullptr;    // packed types only, like the following
    AttentionFn attend = nullptr;
    AttentionFn attend_draft = nullptr;  // KvReader::kDraft
    AttentionFn attend_f16 = nullptr;
    static KvKernels For(KvType type, const KernelSet& kernels);
  };
  struct Args {
    AttentionAttrs attrs;
    KvKernels kv;
    RopeFn rope = nullptr;                     // with fused_rope
    int rotary_table = 0;                      // with fused_rope
    QuantizeBlockFn quantize_block = nullptr;  // when out is quantized
    int64_t max_context = 0;                   // tokens of the longest sequence
    Operand q;
    Operand k;
    Operand v;
    Operand out;
  };
  AttentionStep(std::string name, const Args& args) : PlanStep(std::move(name)), args_(args) {}

  std::string Describe() const override;
  int64_t WorkspaceBytes(int64_t tokens) const override;
  int64_t WorkerScratchBytes() const override;
  Status Run(const StepContext& context) const override;

 private:
  // One token's query heads that share a KV head, and the keys it sees.
  struct Item {
    int64_t row = 0;
    int64_t kv_head = 0;
    int64_t begin = 0;  // keys
    int64_t end = 0;
    // Its spans, in ascending order: f16 first block (0 or 1), spans of the cache, f16 own block.
    int64_t sink_spans = 0;
    int64_t cache_begin = 0;  // keys that are read from the cache's blocks
    int64_t cache_end = 0;
    int64_t cache_spans = 0;
    int64_t own_spans = 0;
    int64_t span_count() const { return sink_spans + cache_spans + own_spans; }
  };
  // Keys of a span: on one side little enough that a short context still makes work for all, on the
  // other enough (some microseconds) to be worth joining.
  static constexpr int64_t kSpanTokens = 256;
  // With fewer items than this, workers share an item's spans.
  static constexpr int64_t kFewItems = 32;

  int64_t LastSeen(const StepContext& context, int64_t row) const;
  Item ItemAt(const StepContext& context, int64_t index) const;
  void DivideKeys(Item& item) const;
  AttentionFn SetKeys(const StepContext& context, const Item& item, int64_t span,
                      AttentionArgs& attend) const;
  void SetF16Block(const std::byte* keys, AttentionArgs& attend) const;
  std::byte* F16Keys(const StepContext& context, const StepBlock& block, int64_t head) const;
  std::byte* SinkKeys(const StepContext& context, const Item& item) const;
  void Seal(const StepContext& context) const;
  int64_t ResultBytes(int64_t tokens) const;
  void AttendSpan(const StepContext& context, const Item& item, int64_t span, float* scratch,
                  float* out) const;
  void AttendAll(const StepContext& context, const Item& item, float* scratch) const;
  void AttendShared(const StepContext& context, int64_t items) const;
  void StoreResult(const StepContext& context, const Item& item, const SoftmaxState* states,
                   float* values) const;
  int64_t SpanFloats() const;
  void StoreToken(const StepContext& context, int64_t row, float* scratch) const;
  void StoreOutput(const StepContext& context, int64_t row, int64_t kv_head,
                   const float* values) const;
  const float* Rotated(const StepContext& context, const float* x, int64_t heads, int64_t row,
                       float* scratch) const;
  int32_t Layer() const { return static_cast<int32_t>(args_.attrs.layer); }
  int64_t GroupHeads() const { return args_.attrs.heads / args_.attrs.kv_heads; }
  int64_t GroupValues() const { return GroupHeads() * args_.attrs.head_dim; }

  Args args_;
};

}  // namespace tenon
