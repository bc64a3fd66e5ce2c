#include "engine/exec/steps/attention_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "hal/cpu/exp_poly.h"

namespace tenon {
namespace {

// A span's result: outputs [heads, head_dim], then states [heads].
SoftmaxState* StatesOf(float* out, int64_t values) {
  return reinterpret_cast<SoftmaxState*>(out + values);
}

// Adds a later span's result to that of the spans before it. Plain products and sums, which every
// machine rounds alike.
void JoinSpans(float* next, int64_t heads, int64_t head_dim, float* out) {
  const SoftmaxState* next_states = StatesOf(next, heads * head_dim);
  SoftmaxState* states = StatesOf(out, heads * head_dim);
  for (int64_t head = 0; head < heads; ++head) {
    const SoftmaxState other = next_states[head];
    SoftmaxState& state = states[head];
    const float max = std::max(state.max, other.max);
    const float keep = ExpScalar(state.max - max);
    const float add = ExpScalar(other.max - max);
    state = {max, state.sum * keep + other.sum * add};
    float* sums = out + head * head_dim;
    const float* others = next + head * head_dim;
    for (int64_t d = 0; d < head_dim; ++d)
      sums[d] = sums[d] * keep + others[d] * add;
  }
}

// One block of f16 keys, read as block 0 of a table.
constexpr int32_t kFirstOfTable = 0;

constexpr int64_t kCacheLine = 64;

}  // namespace

AttentionStep::KvKernels AttentionStep::KvKernels::For(KvType type, const KernelSet& kernels) {
  constexpr auto kF16 = static_cast<size_t>(KvType::kF16);
  const auto index = static_cast<size_t>(type);
  KvKernels kv;
  kv.type = type;
  kv.store = kernels.kv_store[IsPackedKv(type) ? kF16 : index];
  kv.attend = kernels.attention[index];
  kv.seal = kernels.kv_seal[index];
  kv.attend_f16 = kernels.attention[kF16];
  // Without its lower half, kHier is kQ4 with gaps between its blocks.
  kv.attend_draft =
      type == KvType::kHier ? kernels.attention[static_cast<size_t>(KvType::kQ4)] : kv.attend;
  return kv;
}

std::string AttentionStep::Describe() const {
  return fmt::format("attention {} heads over {} kv heads of {}{}{}{}{}", args_.attrs.heads,
                     args_.attrs.kv_heads, args_.attrs.head_dim,
                     args_.attrs.window > 0 ? fmt::format(", window {}", args_.attrs.window) : "",
                     args_.attrs.causal ? "" : ", not causal",
                     args_.attrs.fused_rope ? ", rotary" : "",
                     args_.quantize_block != nullptr ? " -> integers" : "");
}

// One span's result: outputs and softmax states of a group of heads.
int64_t AttentionStep::SpanFloats() const {
  return GroupValues() + 2 * GroupHeads();
}

// Results of spans that workers share, up to the next cache line.
int64_t AttentionStep::ResultBytes(int64_t tokens) const {
  const int64_t items = std::min(tokens * args_.attrs.kv_heads, kFewItems);
  const int64_t f16_spans = IsPackedKv(args_.kv.type) ? 2 : 0;
  const int64_t spans = (args_.max_context + kSpanTokens - 1) / kSpanTokens + f16_spans;
  const int64_t bytes = items * spans * SpanFloats() * static_cast<int64_t>(sizeof(float));
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

int64_t AttentionStep::WorkspaceBytes(int64_t tokens) const {
  if (!IsPackedKv(args_.kv.type))
    return ResultBytes(tokens);
  // Then the f16 form of blocks that the step runs through.
  const int64_t block_bytes = 2 * KvKeyBytes(KvType::kF16, args_.attrs.head_dim);
  return ResultBytes(tokens) + tokens / kKvBlockTokens * args_.attrs.kv_heads * block_bytes;
}

int64_t AttentionStep::WorkerScratchBytes() const {
  // Rotated queries of one KV head's group (or one rotated key), and the results of two spans.
  return (GroupValues() + 2 * SpanFloats()) * static_cast<int64_t>(sizeof(float));
}

Status AttentionStep::Run(const StepContext& context) const {
  const int64_t rows = context.RowCount(Symbol::kTokens);
  const int64_t kv_heads = args_.attrs.kv_heads;
  context.pool.ParallelFor(rows, 8, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t row = begin; row < end; ++row)
      StoreToken(context, row, reinterpret_cast<float*>(context.Scratch(worker)));
  });
  if (IsPackedKv(args_.kv.type))
    Seal(context);
  const int64_t items = rows * kv_heads;
  if (items <= kFewItems) {
    AttendShared(context, items);
    return {};
  }
  context.pool.ParallelFor(items, 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t item = begin; item < end; ++item) {
      AttendAll(context, ItemAt(context, item), reinterpret_cast<float*>(context.Scratch(worker)));
    }
  });
  return {};
}

// The token whose key is the last that `row` sees: itself, or the last one of its sequence.
int64_t AttentionStep::LastSeen(const StepContext& context, int64_t row) const {
  if (args_.attrs.causal)
    return row;
  const std::span<const int32_t> sequences = context.batch.sequences;
  const int32_t own = sequences[static_cast<size_t>(row)];
  int64_t last = static_cast<int64_t>(sequences.size()) - 1;
  while (sequences[static_cast<size_t>(last)] != own)
    --last;
  return last;
}

AttentionStep::Item AttentionStep::ItemAt(const StepContext& context, int64_t index) const {
  Item item;
  // Head by head, so that the next row finds the head's keys in the cache; last rows first, as
  // those of a prompt see the most keys and the longest work should not be begun last.
  const int64_t rows = context.RowCount(Symbol::kTokens);
  item.row = rows - 1 - index % rows;
  item.kv_head = index / rows;
  item.end = context.batch.positions[static_cast<size_t>(LastSeen(context, item.row))] + 1;
  const int64_t window = args_.attrs.window;
  item.begin = window > 0 ? std::max<int64_t>(0, item.end - window) : 0;
  DivideKeys(item);
  return item;
}

void AttentionStep::DivideKeys(Item& item) const {
  item.cache_begin = item.begin;
  item.cache_end = item.end;
  if (IsPackedKv(args_.kv.type)) {
    const int64_t own = (item.end - 1) / kKvBlockTokens * kKvBlockTokens;
    item.own_spans = 1;
    item.sink_spans = own > 0 && item.begin < kKvBlockTokens ? 1 : 0;
    item.cache_begin = std::max(item.begin, kKvBlockTokens);
    item.cache_end = own;
  }
  if (item.cache_begin < item.cache_end)
    item.cache_spans = (item.cache_end - 1) / kSpanTokens - item.cache_begin / kSpanTokens + 1;
}

// The f16 form of a block that the step writes.
std::byte* AttentionStep::F16Keys(const StepContext& context, const StepBlock& block,
                                  int64_t head) const {
  if (block.copy >= 0)
    return context.kv.CopyBase(Layer(), static_cast<int32_t>(head)) +
           block.copy * context.kv.copy_stride();
  const int64_t tokens = context.RowCount(Symbol::kTokens);
  const int64_t block_bytes = 2 * KvKeyBytes(KvType::kF16, args_.attrs.head_dim);
  return context.workspace + ResultBytes(tokens) +
         (block.workspace * args_.attrs.kv_heads + head) * block_bytes;
}

// The f16 form of the first block of the item's sequence.
std::byte* AttentionStep::SinkKeys(const StepContext& context, const Item& item) const {
  const int32_t sequence = context.batch.sequences[static_cast<size_t>(item.row)];
  const BlockIndex first = context.batch.block_tables[static_cast<size_t>(sequence)][0];
  return context.kv.CopyBase(Layer(), static_cast<int32_t>(item.kv_head)) +
         context.kv.FloatCopy(first) * context.kv.copy_stride();
}

// Packs the blocks that the step completes.
void AttentionStep::Seal(const StepContext& context) const {
  const auto full = context.step_blocks.full();
  const int64_t kv_heads = args_.attrs.kv_heads;
  const int64_t items = static_cast<int64_t>(full.size()) * kv_heads;
  context.pool.ParallelFor(items, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const auto number = static_cast<size_t>(full[static_cast<size_t>(i / kv_heads)]);
      const StepBlock& block = context.step_blocks.blocks()[number];
      const auto head = static_cast<int32_t>(i % kv_heads);
      const int64_t offset = block.block * context.kv.block_stride();
      const std::byte* keys = F16Keys(context, block, head);
      args_.kv.seal({keys, keys + KvKeyBytes(KvType::kF16, args_.attrs.head_dim),
                     args_.attrs.head_dim, context.kv.KeyBase(Layer(), head) + offset,
                     context.kv.ValueBase(Layer(), head) + offset});
    }
  });
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
  const bool packed = IsPackedKv(args_.kv.type);
  for (int64_t head = 0; head < args_.attrs.kv_heads; ++head) {
    KvStoreArgs store;
    store.key = Rotated(context, context.FloatRow(args_.k, row) + head * head_dim, 1, row, scratch);
    store.value = context.FloatRow(args_.v, row) + head * head_dim;
    store.head_dim = head_dim;
    store.slot = position % kKvBlockTokens;
    if (packed) {
      store.key_block = F16Keys(context, context.step_blocks.OfRow(row), head);
      store.value_block = store.key_block + KvKeyBytes(KvType::kF16, head_dim);
    } else {
      const int64_t offset = block * context.kv.block_stride();
      store.key_block = context.kv.KeyBase(Layer(), static_cast<int32_t>(head)) + offset;
      store.value_block = context.kv.ValueBase(Layer(), static_cast<int32_t>(head)) + offset;
    }
    args_.kv.store(store);
  }
}

// Keys and values of one block in f16, as if it were the only block there is.
void AttentionStep::SetF16Block(const std::byte* keys, AttentionArgs& attend) const {
  attend.keys = keys;
  attend.values = keys + KvKeyBytes(KvType::kF16, args_.attrs.head_dim);
  attend.block_stride = 0;
  attend.block_table = &kFirstOfTable;
}

// Where the item's span number `span` finds its keys, and the kernel that reads them.
AttentionFn AttentionStep::SetKeys(const StepContext& context, const Item& item, int64_t span,
                                   AttentionArgs& attend) const {
  if (span < item.sink_spans) {
    SetF16Block(SinkKeys(context, item), attend);
    attend.begin = item.begin;
    attend.end = kKvBlockTokens;
    return args_.kv.attend_f16;
  }
  if (span >= item.sink_spans + item.cache_spans) {
    SetF16Block(F16Keys(context, context.step_blocks.OfRow(item.row), item.kv_head), attend);
    const int64_t own = (item.end - 1) / kKvBlockTokens * kKvBlockTokens;
    attend.begin = std::max<int64_t>(item.begin - own, 0);
    attend.end = item.end - own;
    return args_.kv.attend_f16;
  }
  const int64_t number = item.cache_begin / kSpanTokens + span - item.sink_spans;
  const int32_t sequence = context.batch.sequences[static_cast<size_t>(item.row)];
  attend.keys = context.kv.KeyBase(Layer(), static_cast<int32_t>(item.kv_head));
  attend.values = context.kv.ValueBase(Layer(), static_cast<int32_t>(item.kv_head));
  attend.block_stride = context.kv.block_stride();
  attend.block_table = context.batch.block_tables[static_cast<size_t>(sequence)].data();
  attend.begin = std::max(item.cache_begin, number * kSpanTokens);
  attend.end = std::min(item.cache_end, (number + 1) * kSpanTokens);
  return context.batch.kv_reader == KvReader::kDraft ? args_.kv.attend_draft : args_.kv.attend;
}

// The item's span number `span` from its first one: undivided outputs [GroupValues()] and states.
void AttentionStep::AttendSpan(const StepContext& context, const Item& item, int64_t span,
                               float* scratch, float* out) const {
  AttentionArgs attend;
  attend.query =
      Rotated(context, context.FloatRow(args_.q, item.row) + item.kv_head * GroupValues(),
              GroupHeads(), item.row, scratch);
  attend.heads = GroupHeads();
  attend.head_dim = args_.attrs.head_dim;
  attend.scale = args_.attrs.scale;
  attend.softcap = args_.attrs.softcap;
  attend.out = out;
  attend.partial = StatesOf(out, GroupValues());
  SetKeys(context, item, span, attend)(attend);
}

void AttentionStep::AttendAll(const StepContext& context, const Item& item, float* scratch) const {
  float* out = scratch + GroupValues();
  float* next = out + SpanFloats();
  AttendSpan(context, item, 0, scratch, out);
  for (int64_t span = 1; span < item.span_count(); ++span) {
    AttendSpan(context, item, span, scratch, next);
    JoinSpans(next, GroupHeads(), args_.attrs.head_dim, out);
  }
  StoreResult(context, item, StatesOf(out, GroupValues()), out);
}

// Workers share the spans of all items; then each item's results are joined.
void AttentionStep::AttendShared(const StepContext& context, int64_t items) const {
  int64_t spans = 0;
  for (int64_t i = 0; i < items; ++i)
    spans = std::max(spans, ItemAt(context, i).span_count());
  float* results = reinterpret_cast<float*>(context.workspace);
  const auto result = [&](int64_t item, int64_t span) {
    return results + (item * spans + span) * SpanFloats();
  };
  context.pool.ParallelFor(items * spans, 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end; ++i) {
      const Item item = ItemAt(context, i / spans);
      float* out = result(i / spans, i % spans);
      if (i % spans < item.span_count())
        AttendSpan(context, item, i % spans, reinterpret_cast<float*>(context.Scratch(worker)),
                   out);
    }
  });
  // Joining is a microsecond for an item of some thousand tokens: with few spans not worth waking
  // anybody.
  context.pool.ParallelFor(
      items, std::max<int64_t>(1, 32 / spans), [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          const Item item = ItemAt(context, i);
          float* out = result(i, 0);
          for (int64_t span = 1; span < item.span_count(); ++span)
            JoinSpans(result(i, span), GroupHeads(), args_.attrs.head_dim, out);
          StoreResult(context, item, StatesOf(out, GroupValues()), out);
        }
      });
}

// Divides by the sums of the softmax, in place, and writes the step's output.
void AttentionStep::StoreResult(const StepContext& context, const Item& item,
                                const SoftmaxState* states, float* values) const {
  const int64_t head_dim = args_.attrs.head_dim;
  for (int64_t head = 0; head < GroupHeads(); ++head) {
    const float inverse = 1.0F / states[head].sum;
    for (int64_t d = 0; d < head_dim; ++d)
      values[head * head_dim + d] *= inverse;
  }
  if (args_.quantize_block == nullptr)
    std::copy_n(values, GroupValues(),
                context.FloatRow(args_.out, item.row) + item.kv_head * GroupValues());
  else
    StoreOutput(context, item.row, item.kv_head, values);
}

void AttentionStep::StoreOutput(const StepContext& context, int64_t row, int64_t kv_head,
                                const float* values) const {
  const int64_t blocks = GroupHeads() * args_.attrs.head_dim / kActivationBlockValues;
  std::byte* out = context.Row(args_.out, row);
  for (int64_t i = 0; i < blocks; ++i)
    args_.quantize_block(values + i * kActivationBlockValues, out, args_.out.columns,
                         kv_head * blocks + i);
}

}  // namespace tenon
