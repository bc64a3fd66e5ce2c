#include "engine/exec/model_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <variant>

#include "base/check.h"
#include "graph/step_inputs.h"
#include "graph/verify.h"

namespace tenon {
namespace {

// Writes every page once: memory that was promised is there.
void Touch(std::span<std::byte> bytes, ThreadPool& pool) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  const auto size = static_cast<int64_t>(bytes.size());
  pool.ParallelFor((size + kPiece - 1) / kPiece, 1, [&](int64_t begin, int64_t end, int) {
    const int64_t last = std::min(size, end * kPiece);
    std::memset(bytes.data() + begin * kPiece, 0, static_cast<size_t>(last - begin * kPiece));
  });
}

// Rows of the table that token ids are looked up in; 0 without one.
int64_t EmbeddedTokens(const Graph& graph) {
  int64_t count = 0;
  for (const Op& op : graph.ops()) {
    const auto* embed = std::get_if<EmbedAttrs>(&op.attrs);
    if (embed != nullptr && embed->only_row < 0 && graph.value(op.inputs[0]).name == kTokensInput)
      count = graph.value(op.inputs[1]).shape.front().extent;
  }
  return count;
}

Status TooLarge(std::string_view field, size_t found, int64_t limit) {
  return InvalidArgument(fmt::format("{} in one step, the plan takes at most {}", found, limit),
                         std::string(field));
}

}  // namespace

ModelRunner::ModelRunner(Graph graph, const WeightSource& source, const KernelSet& kernels,
                         const RunnerOptions& options)
    : source_(source), kernels_(kernels), options_(options), source_graph_(std::move(graph)) {
  options_.plan.max_context = options_.kv_tokens;
}

Result<std::unique_ptr<ModelRunner>> ModelRunner::Prepare(Graph graph, const WeightSource& source,
                                                          const KernelSet& kernels,
                                                          const RunnerOptions& options) {
  std::unique_ptr<ModelRunner> runner(new ModelRunner(std::move(graph), source, kernels, options));
  runner->optimized_graph_ = runner->source_graph_;
  TENON_ASSIGN_OR_RETURN(runner->report_, Optimize(runner->optimized_graph_, options.passes));
  TENON_ASSIGN_OR_RETURN(
      runner->weights_,
      WeightStore::Prepare(source, ExecutionPlan::WeightNames(runner->optimized_graph_), kernels,
                           options.passes.activations, options.rounding));
  TENON_RETURN_IF_ERROR(runner->PrepareKv());
  TENON_ASSIGN_OR_RETURN(runner->plan_,
                         ExecutionPlan::Compile(runner->optimized_graph_, source, runner->weights_,
                                                runner->kernels_, runner->options_.plan));
  // A slice of a model may embed no tokens.
  const int64_t embedded = EmbeddedTokens(runner->optimized_graph_);
  runner->token_count_ = embedded > 0 ? embedded : runner->vocab_size();
  return runner;
}

Status ModelRunner::PrepareKv() {
  kv_config_.type = options_.plan.kv_type;
  const int64_t blocks = BlocksFor(options_.kv_tokens);
  if (blocks > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument(
        fmt::format("{} tokens of context need too many blocks", options_.kv_tokens), "context");
  }
  kv_config_.blocks = static_cast<int32_t>(blocks);
  if (IsPackedKv(kv_config_.type)) {
    const int64_t copies = StepBlocks::kCopiesOfSequence * options_.plan.max_sequences;
    kv_config_.float_copies = static_cast<int32_t>(std::min(blocks, copies));
  }
  // A slice of a model may have no attention; the pool then holds next to nothing.
  bool has_attention = false;
  for (const Op& op : optimized_graph_.ops()) {
    const auto* attention = std::get_if<AttentionAttrs>(&op.attrs);
    if (attention == nullptr)
      continue;
    kv_config_.layers = std::max(kv_config_.layers, static_cast<int32_t>(attention->layer) + 1);
    is_encoder_ = is_encoder_ || !attention->causal;
    const bool first = !std::exchange(has_attention, true);
    if (!first &&
        (kv_config_.kv_heads != attention->kv_heads || kv_config_.head_dim != attention->head_dim))
      return Unsupported("layers with different numbers or sizes of KV heads", op.name);
    kv_config_.kv_heads = static_cast<int32_t>(attention->kv_heads);
    kv_config_.head_dim = static_cast<int32_t>(attention->head_dim);
  }
  if (!has_attention) {
    kv_config_.layers = kv_config_.kv_heads = 1;
    kv_config_.head_dim = 8;
  }
  TENON_ASSIGN_OR_RETURN(kv_layout_, KvLayout::Create(kv_config_));
  return {};
}

std::vector<const PackedMatrix*> ModelRunner::MatricesOf(const Op& op) const {
  std::vector<const PackedMatrix*> matrices;
  for (const ValueId input : op.inputs) {
    const auto& weight = optimized_graph_.value(input).weight;
    const PackedMatrix* matrix = weight ? weights_.FindMatrix(weight->tensor) : nullptr;
    if (matrix != nullptr)
      matrices.push_back(matrix);
  }
  return matrices;
}

MemoryNeeds ModelRunner::Needs(int threads) const {
  return NeedsWith(threads, options_.spill);
}

MemoryNeeds ModelRunner::NeedsWith(int threads, const WeightSpill& spill) const {
  MemoryNeeds needs;
  needs.weights = weights_.bytes();
  if (!spill.directory.empty()) {
    int64_t most = 0;
    for (const Op& op : optimized_graph_.ops()) {
      int64_t bytes = 0;
      for (const PackedMatrix* matrix : MatricesOf(op))
        bytes += weights_.SpilledBytes(*matrix, spill);
      most = std::max(most, bytes);
    }
    needs.weights = std::min(needs.weights, spill.resident_bytes + weights_.vector_bytes() + most);
  }
  needs.kv = options_.shared_kv != nullptr ? 0 : static_cast<int64_t>(kv_layout_.total_bytes);
  needs.workspace = plan_.TotalBytes(threads);
  needs.load_transient = WeightStore::kReleaseBytes;
  return needs;
}

// What a shared pool must agree in.
Status ModelRunner::CheckSharedKv() const {
  if (options_.shared_kv == nullptr)
    return {};
  const KvConfig& shared = options_.shared_kv->config();
  if (shared.type == kv_config_.type && shared.layers == kv_config_.layers &&
      shared.kv_heads == kv_config_.kv_heads && shared.head_dim == kv_config_.head_dim &&
      shared.blocks == kv_config_.blocks)
    return {};
  return Unsupported("the KV cache of another shape can't be shared", "KV cache");
}

Status ModelRunner::Load(ThreadPool& pool, int64_t available_bytes, WeightCache* weight_cache) {
  TENON_RETURN_IF_ERROR(CheckSharedKv());
  pool_ = &pool;
  const MemoryNeeds needs = Needs(pool.threads());
  if (available_bytes > 0 && needs.total() > available_bytes) {
    return MakeError(
        ErrorCode::kResourceExhausted,
        fmt::format("the model needs {} bytes ({} weights, {} KV cache, {} workspace), "
                    "{} are available; a smaller context (-c) or batch (-b) needs less",
                    needs.total(), needs.weights, needs.kv, needs.workspace, available_bytes));
  }
  TENON_RETURN_IF_ERROR(options_.spill.directory.empty()
                            ? weights_.Load(source_, pool, weight_cache)
                            : weights_.LoadSpilled(source_, pool, options_.spill));
  // Compiled again: vectors and rotary factors have addresses only now.
  TENON_ASSIGN_OR_RETURN(
      plan_, ExecutionPlan::Compile(optimized_graph_, source_, weights_, kernels_, options_.plan));
  for (const Op& op : optimized_graph_.ops()) {
    if (!options_.spill.directory.empty())
      spilled_.push_back(MatricesOf(op));
  }
  return ReserveMemory();
}

void ModelRunner::UsePool(ThreadPool& pool) {
  TENON_CHECK(pool_ != nullptr && pool_->threads() == pool.threads());
  pool_ = &pool;
}

Status ModelRunner::ReserveMemory() {
  if (options_.shared_kv == nullptr) {
    TENON_ASSIGN_OR_RETURN(kv_, KvPool::Create(kv_config_));
  }
  TENON_ASSIGN_OR_RETURN(arena_, Buffer::Allocate(static_cast<size_t>(plan_.arena_bytes())));
  TENON_ASSIGN_OR_RETURN(workspace_,
                         Buffer::Allocate(static_cast<size_t>(plan_.workspace_bytes())));
  TENON_ASSIGN_OR_RETURN(
      worker_scratch_,
      Buffer::Allocate(static_cast<size_t>(plan_.worker_scratch_bytes() * pool_->threads())));
  TENON_RETURN_IF_ERROR(plan_.rotary().Reserve(options_.plan.max_tokens));
  if (kv_.has_value())
    Touch(kv_->bytes(), *pool_);
  Touch(arena_.bytes(), *pool_);
  Touch(workspace_.bytes(), *pool_);
  return {};
}

Status ModelRunner::CheckBatch(const Batch& batch) const {
  const size_t tokens = batch.tokens.size();
  if (tokens > static_cast<size_t>(options_.plan.max_tokens))
    return TooLarge("tokens", tokens, options_.plan.max_tokens);
  if (batch.output_rows.size() > static_cast<size_t>(options_.plan.max_outputs))
    return TooLarge("output_rows", batch.output_rows.size(), options_.plan.max_outputs);
  if (batch.positions.size() != tokens || batch.sequences.size() != tokens)
    return InvalidArgument("tokens, positions and sequences have different lengths", "batch");
  for (size_t i = 0; i < tokens; ++i) {
    const auto sequence = static_cast<size_t>(batch.sequences[i]);
    if (batch.sequences[i] < 0 || sequence >= batch.block_tables.size())
      return InvalidArgument(fmt::format("no sequence {}", batch.sequences[i]), "sequences");
    const int64_t reserved =
        static_cast<int64_t>(batch.block_tables[sequence].size()) * kKvBlockTokens;
    if (batch.positions[i] < 0 || batch.positions[i] >= reserved) {
      return InvalidArgument(fmt::format("position {} of a sequence with {} reserved tokens",
                                         batch.positions[i], reserved),
                             "positions");
    }
    if (batch.tokens[i] < 0 || batch.tokens[i] >= token_count_) {
      return InvalidArgument(
          fmt::format("token id {} is outside the vocabulary of {}", batch.tokens[i], token_count_),
          "tokens");
    }
  }
  for (int32_t row : batch.output_rows) {
    if (row < 0 || static_cast<size_t>(row) >= tokens)
      return InvalidArgument(fmt::format("row {} of a batch of {}", row, tokens), "output_rows");
  }
  return {};
}

StepContext ModelRunner::ContextOf(const Batch& batch) {
  return {*pool_,
          arena_.data(),
          workspace_.data(),
          worker_scratch_.data(),
          plan_.worker_scratch_bytes(),
          batch,
          kv(),
          plan_.rotary(),
          step_blocks_};
}

Status ModelRunner::RunStep(size_t index, const StepContext& context) const {
  TENON_RETURN_IF_ERROR(plan_.steps()[index]->Run(context));
  if (!spilled_.empty()) {
    for (const PackedMatrix* matrix : spilled_[index])
      weights_.Release(*matrix);
  }
  return {};
}

Status ModelRunner::RunSteps(const Batch& batch, size_t first, size_t last) {
  TENON_CHECK(pool_ != nullptr && last <= plan_.steps().size());
  TENON_RETURN_IF_ERROR(CheckBatch(batch));
  if (IsPackedKv(kv_config_.type))
    TENON_RETURN_IF_ERROR(step_blocks_.Prepare(batch, kv()));
  plan_.rotary().Compute(batch.positions, *pool_);
  const StepContext context = ContextOf(batch);
  for (size_t i = first; i < last; ++i)
    TENON_RETURN_IF_ERROR(RunStep(i, context));
  return {};
}

Result<std::span<const float>> ModelRunner::Step(const Batch& batch, StepOutputs outputs) {
  TENON_CHECK(pool_ != nullptr);
  TENON_RETURN_IF_ERROR(CheckBatch(batch));
  if (IsPackedKv(kv_config_.type))
    TENON_RETURN_IF_ERROR(step_blocks_.Prepare(batch, kv()));
  plan_.rotary().Compute(batch.positions, *pool_);
  const StepContext context = ContextOf(batch);
  const bool hidden_only = outputs == StepOutputs::kHiddenOnly;
  const size_t count = hidden_only ? plan_.hidden_steps() : plan_.steps().size();
  for (size_t i = 0; i < count; ++i) {
    if (tap_ != nullptr)
      tap_->Before(i, batch, arena_.data());
    TENON_RETURN_IF_ERROR(RunStep(i, context));
  }
  const size_t rows = batch.output_rows.size();
  step_tokens_ = batch.tokens.size();
  step_outputs_ = rows;
  if (hidden_size() > 0)
    hidden_ = {context.FloatRow(plan_.hidden(), 0), rows * static_cast<size_t>(hidden_size())};
  if (hidden_only)
    return std::span<const float>();
  return std::span<const float>(context.FloatRow(plan_.logits(), 0),
                                rows * static_cast<size_t>(vocab_size()));
}

std::span<const float> ModelRunner::Output(size_t index) const {
  const Operand& operand = plan_.outputs()[index];
  TENON_CHECK(operand.dtype == DType::kF32);
  const size_t rows = operand.rows == Symbol::kOutputs ? step_outputs_ : step_tokens_;
  return {reinterpret_cast<const float*>(arena_.data() + operand.offset),
          rows * static_cast<size_t>(operand.columns)};
}

}  // namespace tenon
