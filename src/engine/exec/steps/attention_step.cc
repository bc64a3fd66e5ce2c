#include "engine/exec/steps/attention_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/exec/steps/activation_group.h"

namespace tenon {

std::string AttentionStep::Describe() const {
  return fmt::format("attention {} heads over {} kv heads of {}{}{}{}", args_.attrs.heads,
                     args_.attrs.kv_heads, args_.attrs.head_dim,
                     args_.attrs.window > 0 ? fmt::format(", window {}", args_.attrs.window) : "",
                     args_.attrs.fused_rope ? ", rotary" : "",
                     args_.quantize != nullptr ? " -> int8" : "");
}

int64_t AttentionStep::WorkerScratchBytes() const {
  // Rotated queries of one KV head's group (or one rotated key), and their outputs.
  return 2 * GroupHeads() * args_.attrs.head_dim * static_cast<int64_t>(sizeof(float));
}

Status AttentionStep::Run(const StepContext& context) const {
  const int64_t rows = context.RowCount(Symbol::kTokens);
  const int64_t kv_heads = args_.attrs.kv_heads;
  context.pool.ParallelFor(rows, 8, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t row = begin; row < end; ++row)
      StoreToken(context, row, reinterpret_cast<float*>(context.Scratch(worker)));
  });
  context.pool.ParallelFor(rows * kv_heads, 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t item = begin; item < end; ++item) {
      AttendHead(context, item / kv_heads, item % kv_heads,
                 reinterpret_cast<float*>(context.Scratch(worker)));
    }
  });
  return {};
}

const float* AttentionStep::Rotated(const StepContext& context, const float* x, int64_t heads,
                                    int64_t row, float* scratch) const {
  if (!args_.attrs.fused_rope)
    return x;
  const int64_t head_dim = args_.attrs.head_dim;
  std::copy_n(x, heads * head_dim, scratch);
  for (int64_t head = 0; head < heads; ++head) {
    args_.rope(scratch + head * head_dim, context.rotary.Cos(args_.rotary_table, row),
               context.rotary.Sin(args_.rotary_table, row),
               context.rotary.pairs(args_.rotary_table));
  }
  return scratch;
}

void AttentionStep::StoreToken(const StepContext& context, int64_t row, float* scratch) const {
  const Batch& batch = context.batch;
  const size_t index = static_cast<size_t>(row);
  const int64_t position = batch.positions[index];
  const auto& blocks = batch.block_tables[static_cast<size_t>(batch.sequences[index])];
  const int64_t block = blocks[static_cast<size_t>(position / kKvBlockTokens)];
  const int64_t head_dim = args_.attrs.head_dim;
  for (int64_t head = 0; head < args_.attrs.kv_heads; ++head) {
    KvStoreArgs store;
    store.key = Rotated(context, context.FloatRow(args_.k, row) + head * head_dim, 1, row, scratch);
    store.value = context.FloatRow(args_.v, row) + head * head_dim;
    store.head_dim = head_dim;
    store.slot = position % kKvBlockTokens;
    const int64_t offset = block * context.kv.block_stride();
    store.key_block = context.kv.KeyBase(Layer(), static_cast<int32_t>(head)) + offset;
    store.value_block = context.kv.ValueBase(Layer(), static_cast<int32_t>(head)) + offset;
    args_.store(store);
  }
}

void AttentionStep::AttendHead(const StepContext& context, int64_t row, int64_t kv_head,
                               float* scratch) const {
  const Batch& batch = context.batch;
  const size_t index = static_cast<size_t>(row);
  const int64_t heads = GroupHeads();
  const int64_t values = heads * args_.attrs.head_dim;
  AttentionArgs attend;
  attend.query =
      Rotated(context, context.FloatRow(args_.q, row) + kv_head * values, heads, row, scratch);
  attend.heads = heads;
  attend.head_dim = args_.attrs.head_dim;
  attend.keys = context.kv.KeyBase(Layer(), static_cast<int32_t>(kv_head));
  attend.values = context.kv.ValueBase(Layer(), static_cast<int32_t>(kv_head));
  attend.block_stride = context.kv.block_stride();
  attend.block_table = batch.block_tables[static_cast<size_t>(batch.sequences[index])].data();
  attend.end = batch.positions[index] + 1;
  attend.begin = args_.attrs.window > 0 ? std::max<int64_t>(0, attend.end - args_.attrs.window) : 0;
  attend.scale = args_.attrs.scale;
  attend.softcap = args_.attrs.softcap;
  const bool direct = args_.quantize == nullptr;
  attend.out = direct ? context.FloatRow(args_.out, row) + kv_head * values : scratch + values;
  args_.attend(attend);
  if (!direct)
    StoreOutput(context, row, kv_head, attend.out);
}

void AttentionStep::StoreOutput(const StepContext& context, int64_t row, int64_t kv_head,
                                const float* values) const {
  const int64_t k = args_.out.columns;
  const int64_t groups = GroupHeads() * args_.attrs.head_dim / kActivationGroup;
  std::byte* out = context.Row(args_.out, row);
  for (int64_t i = 0; i < groups; ++i)
    StoreActivationGroup(args_.quantize, values + i * kActivationGroup, out, k,
                         kv_head * groups + i);
}

}  // namespace tenon
