#include "accel/routing/routing_trace.h"

#include <algorithm>

#include "engine/exec/batch_builder.h"
#include "engine/kv/sequence.h"

namespace tenon {
namespace {

// Runs one model over a window and calls `take` with the logits of each recorded position.
class WindowRun {
 public:
  using TakeRows = std::function<void(int64_t position, int64_t rows, std::span<const float>)>;

  WindowRun(ModelRunner& runner, const TraceWindow& window) : runner_(runner), window_(window) {}

  Status Run(const TakeRows& take) {
    const PlanOptions& plan = runner_.options().plan;
    const auto inputs = static_cast<int64_t>(window_.tokens.size()) - 1;
    Sequence sequence(runner_.kv(), CacheScope{}, PrefixCache::kOff);
    TENON_RETURN_IF_ERROR(ReserveNow(sequence, inputs));
    for (int64_t done = 0; done < inputs;) {
      const bool is_recorded = done + 1 >= window_.first;
      const int64_t end = is_recorded ? inputs : std::min(inputs, window_.first - 1);
      const int64_t most =
          is_recorded ? std::min(plan.max_tokens, plan.max_outputs) : plan.max_tokens;
      const int64_t count = std::min(most, end - done);
      TENON_RETURN_IF_ERROR(Piece(sequence, done, count, is_recorded, take));
      done += count;
    }
    return {};
  }

 private:
  Status Piece(Sequence& sequence, int64_t first, int64_t count, const bool is_recorded,
               const TakeRows& take) {
    const auto piece =
        std::span(window_.tokens).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
    builder_.Clear();
    builder_.AddTokens(builder_.AddSequence(sequence.block_table()), piece, first,
                       is_recorded ? BatchBuilder::Outputs::kAll : BatchBuilder::Outputs::kNone);
    TENON_ASSIGN_OR_RETURN(const auto logits, runner_.Step(builder_.batch()));
    sequence.Append(piece);
    if (is_recorded)
      take(first + 1, count, logits);
    return {};
  }

  ModelRunner& runner_;
  const TraceWindow& window_;
  BatchBuilder builder_;
};

class Tracer {
 public:
  Tracer(ModelRunner& small, ModelRunner& large, ThreadPool& pool)
      : small_(small), large_(large), pool_(pool) {
    trace_.hidden.columns = small.hidden_size();
  }

  Status Add(const TraceWindow& window, int32_t index) {
    const size_t base = trace_.rows.size();
    const auto first = static_cast<size_t>(window.first);
    for (size_t i = first; i < window.tokens.size(); ++i) {
      trace_.rows.emplace_back();
      trace_.rows.back().window = index;
      trace_.rows.back().truth = window.tokens[i];
    }
    const auto place = [&](int64_t position) {
      return base + static_cast<size_t>(position) - first;
    };
    TENON_RETURN_IF_ERROR(
        WindowRun(small_, window)
            .Run([&](int64_t position, int64_t rows, std::span<const float> logits) {
              Measure(place(position), rows, logits, &TraceRow::small,
                      &TraceRow::small_truth_logprob);
              trace_.hidden.values.insert(trace_.hidden.values.end(), small_.hidden().begin(),
                                          small_.hidden().end());
            }));
    TENON_RETURN_IF_ERROR(
        WindowRun(large_, window)
            .Run([&](int64_t position, int64_t rows, std::span<const float> logits) {
              Measure(place(position), rows, logits, &TraceRow::large,
                      &TraceRow::large_truth_logprob);
            }));
    trace_.hidden.rows = trace_.hidden.columns > 0 ? static_cast<int64_t>(trace_.rows.size()) : 0;
    return {};
  }

  RoutingTrace Take() { return std::move(trace_); }

 private:
  void Measure(size_t first, int64_t rows, std::span<const float> logits,
               RowConfidence TraceRow::* confidence, double TraceRow::* logprob) {
    const size_t vocab = logits.size() / static_cast<size_t>(rows);
    pool_.ParallelFor(rows, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const auto row = logits.subspan(static_cast<size_t>(i) * vocab, vocab);
        TraceRow& out = trace_.rows[first + static_cast<size_t>(i)];
        out.*confidence = MeasureConfidence(row);
        out.*logprob = static_cast<double>(row[static_cast<size_t>(out.truth)]) -
                       (out.*confidence).log_sum_exp;
      }
    });
  }

  ModelRunner& small_;
  ModelRunner& large_;
  ThreadPool& pool_;
  RoutingTrace trace_;
};

}  // namespace

Result<RoutingTrace> TraceModels(ModelRunner& small, ModelRunner& large, ThreadPool& pool,
                                 std::span<const TraceWindow> windows,
                                 const std::function<void(int64_t done)>& on_window) {
  Tracer tracer(small, large, pool);
  for (size_t i = 0; i < windows.size(); ++i) {
    if (windows[i].first < 1 || static_cast<int64_t>(windows[i].tokens.size()) <= windows[i].first)
      continue;
    TENON_RETURN_IF_ERROR(tracer.Add(windows[i], static_cast<int32_t>(i)));
    if (on_window)
      on_window(static_cast<int64_t>(i) + 1);
  }
  return tracer.Take();
}

float RouteLabel(const TraceRow& row) {
  if (row.small.best == row.truth)
    return 1.0F;
  if (row.large.best == row.truth)
    return 0.0F;
  const bool is_fine =
      row.small.best == row.large.best || row.small_truth_logprob >= row.large_truth_logprob;
  return is_fine ? 1.0F : 0.0F;
}

}  // namespace tenon
