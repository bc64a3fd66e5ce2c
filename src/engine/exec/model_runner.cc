#include "engine/exec/model_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <variant>

#include "base/check.h"
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
                           options.passes.activations));
  TENON_RETURN_IF_ERROR(runner->PrepareKv());
  TENON_ASSIGN_OR_RETURN(runner->plan_,
                         ExecutionPlan::Compile(runner->optimized_graph_, source, runner->weights_,
                                                runner->kernels_, runner->options_.plan));
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
  for (const Op& op : optimized_graph_.ops()) {
    const auto* attention = std::get_if<AttentionAttrs>(&op.attrs);
    if (attention == nullptr)
      continue;
    kv_config_.layers = std::max(kv_config_.layers, static_cast<int32_t>(attention->layer) + 1);
    const bool first = kv_config_.kv_heads == 0;
    if (!first &&
        (kv_config_.kv_heads != attention->kv_heads || kv_config_.head_dim != attention->head_dim))
      return Unsupported("layers with different numbers or sizes of KV heads", op.name);
    kv_config_.kv_heads = static_cast<int32_t>(attention->kv_heads);
    kv_config_.head_dim = static_cast<int32_t>(attention->head_dim);
  }
  TENON_ASSIGN_OR_RETURN(kv_layout_, KvLayout::Create(kv_config_));
  return {};
}

MemoryNeeds ModelRunner::Needs(int threads) const {
  MemoryNeeds needs;
  needs.weights = weights_.bytes();
  needs.kv = static_cast<int64_t>(kv_layout_.total_bytes);
  needs.workspace = plan_.TotalBytes(threads);
  needs.load_transient = WeightStore::kReleaseBytes;
  return needs;
}

Status ModelRunner::Load(ThreadPool& pool, int64_t available_bytes) {
  pool_ = &pool;
  const MemoryNeeds needs = Needs(pool.threads());
  if (available_bytes > 0 && needs.total() > available_bytes) {
    return MakeError(
        ErrorCode::kResourceExhausted,
        fmt::format("the model needs {} bytes ({} weights, {} KV cache, {} workspace), "
                    "{} are available; a smaller context (-c) or batch (-b) needs less",
                    needs.total(), needs.weights, needs.kv, needs.workspace, available_bytes));
  }
  TENON_RETURN_IF_ERROR(weights_.Load(source_, pool));
  // Compiled again: vectors and rotary factors have addresses only now.
  TENON_ASSIGN_OR_RETURN(
      plan_, ExecutionPlan::Compile(optimized_graph_, source_, weights_, kernels_, options_.plan));
  return ReserveMemory();
}

Status ModelRunner::ReserveMemory() {
  TENON_ASSIGN_OR_RETURN(kv_, KvPool::Create(kv_config_));
  TENON_ASSIGN_OR_RETURN(arena_, Buffer::Allocate(static_cast<size_t>(plan_.arena_bytes())));
  TENON_ASSIGN_OR_RETURN(workspace_,
                         Buffer::Allocate(static_cast<size_t>(plan_.workspace_bytes())));
  TENON_ASSIGN_OR_RETURN(
      worker_scratch_,
      Buffer::Allocate(static_cast<size_t>(plan_.worker_scratch_bytes() * pool_->threads())));
  TENON_RETURN_IF_ERROR(plan_.rotary().Reserve(options_.plan.max_tokens));
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
    if (batch.tokens[i] < 0 || batch.tokens[i] >= vocab_size()) {
      return InvalidArgument(
          fmt::format("token id {} is outside the vocabulary of {}", batch.tokens[i], vocab_size()),
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
          *kv_,
          plan_.rotary()};
}

Status ModelRunner::RunSteps(const Batch& batch, size_t first, size_t last) {
  TENON_CHECK(pool_ != nullptr && last <= plan_.steps().size());
  TENON_RETURN_IF_ERROR(CheckBatch(batch));
  plan_.rotary().Compute(batch.positions, *pool_);
  const StepContext context = ContextOf(batch);
  for (size_t i = first; i < last; ++i)
    TENON_RETURN_IF_ERROR(plan_.steps()[i]->Run(context));
  return {};
}

Result<std::span<const float>> ModelRunner::Step(const Batch& batch, StepOutputs outputs) {
  TENON_CHECK(pool_ != nullptr);
  TENON_RETURN_IF_ERROR(CheckBatch(batch));
  plan_.rotary().Compute(batch.positions, *pool_);
  const StepContext context = ContextOf(batch);
  const bool hidden_only = outputs == StepOutputs::kHiddenOnly;
  const size_t count = hidden_only ? plan_.hidden_steps() : plan_.steps().size();
  for (size_t i = 0; i < count; ++i) {
    if (tap_ != nullptr)
      tap_->Before(i, batch, arena_.data());
    TENON_RETURN_IF_ERROR(plan_.steps()[i]->Run(context));
  }
  const size_t rows = batch.output_rows.size();
  if (hidden_size() > 0)
    hidden_ = {context.FloatRow(plan_.hidden(), 0), rows * static_cast<size_t>(hidden_size())};
  if (hidden_only)
    return std::span<const float>();
  return std::span<const float>(context.FloatRow(plan_.logits(), 0),
                                rows * static_cast<size_t>(vocab_size()));
}

}  // namespace tenon
