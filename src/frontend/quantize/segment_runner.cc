#include "frontend/quantize/segment_runner.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/exec/batch_builder.h"
#include "engine/kv/sequence.h"

namespace tenon {
namespace {

// Blocks of the KV cache of one step; each sequence takes whole ones.
constexpr int64_t kStepBlocks = 2 * SegmentRunner::kStepTokens / kKvBlockTokens;

RunnerOptions FloatOptions() {
  RunnerOptions options;
  options.plan.max_tokens = SegmentRunner::kStepTokens;
  options.plan.max_outputs = SegmentRunner::kStepTokens;
  options.plan.kv_type = KvType::kF32;
  options.passes.level = OptimizeLevel::kO0;  // every linear with an input of its own
  options.passes.activations = ActivationMode::kFloat;
  options.kv_tokens = kStepBlocks * kKvBlockTokens;
  return options;
}

int64_t BeginOf(const TokenSequences& sequences, size_t index) {
  return index == 0 ? 0 : sequences.ends[index - 1];
}

// One past the last sequence of the step that begins with sequence `first`.
size_t StepEnd(const TokenSequences& sequences, size_t first) {
  const int64_t begin = BeginOf(sequences, first);
  int64_t blocks = 0;
  size_t end = first;
  for (; end < sequences.ends.size(); ++end) {
    blocks += BlocksFor(sequences.ends[end] - BeginOf(sequences, end));
    if (end > first &&
        (sequences.ends[end] - begin > SegmentRunner::kStepTokens || blocks > kStepBlocks))
      break;
  }
  return end;
}

}  // namespace

Result<std::unique_ptr<SegmentRunner>> SegmentRunner::Create(const Graph& graph,
                                                             const GraphRange& range,
                                                             const Environment& environment,
                                                             SliceOutputs outputs) {
  std::unique_ptr<SegmentRunner> runner(new SegmentRunner(environment, range));
  TENON_ASSIGN_OR_RETURN(GraphSlice slice, SliceGraph(graph, range, kStepTokens, outputs));
  runner->first_observed_ = outputs == SliceOutputs::kRangeFirst ? 1 : 0;
  runner->observed_ = std::move(slice.observed);
  if (range.input.valid())
    environment.weights.SetInput(kStepTokens, graph.value(range.input).shape.back().extent);
  TENON_ASSIGN_OR_RETURN(runner->runner_,
                         ModelRunner::Prepare(std::move(slice.graph), environment.weights,
                                              environment.kernels, FloatOptions()));
  TENON_RETURN_IF_ERROR(runner->runner_->Load(environment.pool, 0));
  return runner;
}

Result<std::span<const float>> SegmentRunner::RunStep(const TokenSequences& sequences, size_t first,
                                                      size_t end, const Matrix& in) {
  const int64_t begin = BeginOf(sequences, first);
  const int64_t count = sequences.ends[end - 1] - begin;
  std::vector<int32_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  if (takes_states_) {
    environment_.weights.PointInputAt({in.Row(begin), static_cast<size_t>(count * in.columns())});
  }
  BatchBuilder builder;
  std::vector<Sequence> caches;
  for (size_t i = first; i < end; ++i) {
    const int64_t start = BeginOf(sequences, i);
    const int64_t length = sequences.ends[i] - start;
    caches.emplace_back(runner_->kv(), CacheScope{}, PrefixCache::kOff);
    TENON_RETURN_IF_ERROR(ReserveNow(caches.back(), length));
    const std::span<const int32_t> ids =
        takes_states_ ? std::span<const int32_t>(rows).subspan(static_cast<size_t>(start - begin),
                                                               static_cast<size_t>(length))
                      : std::span<const int32_t>(sequences.tokens)
                            .subspan(static_cast<size_t>(start), static_cast<size_t>(length));
    builder.AddTokens(builder.AddSequence(caches.back().block_table()), ids, 0,
                      BatchBuilder::Outputs::kAll);
  }
  return runner_->Step(builder.batch());
}

Status SegmentRunner::Run(const TokenSequences& sequences, const Matrix& in, Matrix* out,
                          const Observer& observer) {
  const int64_t columns = runner_->vocab_size();  // of the first output
  Matrix result;
  const bool in_place = out == &in && in.columns() == columns && in.rows() == sequences.size();
  if (out != nullptr && !in_place)
    result = Matrix(sequences.size(), columns);
  Matrix* target = in_place ? out : &result;
  for (size_t first = 0; first < sequences.ends.size();) {
    const int64_t begin = BeginOf(sequences, first);
    const size_t end = StepEnd(sequences, first);
    const int64_t rows = sequences.ends[end - 1] - begin;
    TENON_ASSIGN_OR_RETURN(const auto values, RunStep(sequences, first, end, in));
    if (out != nullptr)
      std::copy(values.begin(), values.end(), target->Row(begin));
    for (size_t i = 0; observer && i < observed_.size(); ++i) {
      const std::span<const float> seen = runner_->Output(first_observed_ + i);
      const int64_t width = static_cast<int64_t>(seen.size()) / rows;
      observer(i, {seen.data(), rows, width, width, 1});
    }
    first = end;
  }
  if (out != nullptr && !in_place)
    *out = std::move(result);
  return {};
}

}  // namespace tenon
