#include "engine/sched/step_plan.h"

#include <algorithm>

namespace tenon {
namespace {

class StepFiller {
 public:
  explicit StepFiller(const StepLimits& limits)
      : tokens_left_(limits.tokens), rows_left_(limits.output_rows) {}

  void AddDecodes(std::span<const SequenceLoad> loads) {
    for (size_t i = 0; i < loads.size(); ++i) {
      if (loads[i].kind == LoadKind::kDecode && tokens_left_ > 0 && rows_left_ > 0) {
        Add(i, 1, 1);
        ++plan.decodes;
      }
    }
  }

  void AddChunks(std::span<const SequenceLoad> loads, int64_t beside_decodes) {
    if (plan.decodes > 0)
      tokens_left_ = std::min(tokens_left_, beside_decodes);
    for (size_t i = 0; i < loads.size() && tokens_left_ > 0; ++i) {
      if (loads[i].kind == LoadKind::kPrefill || loads[i].kind == LoadKind::kScore)
        AddChunk(i, loads[i]);
      else if (loads[i].kind == LoadKind::kWhole && loads[i].pending <= tokens_left_ &&
               rows_left_ > 0)
        Add(i, loads[i].pending, 1);
    }
  }

  StepPlan plan;

 private:
  void AddChunk(size_t index, const SequenceLoad& load) {
    int64_t chunk = std::min(load.pending, tokens_left_);
    if (load.kind == LoadKind::kScore)
      chunk = std::min(chunk, rows_left_);
    else if (chunk == load.pending && rows_left_ == 0)
      --chunk;  // the last token needs a row: next step
    if (chunk == 0)
      return;
    const int64_t last_row = chunk == load.pending ? 1 : 0;
    Add(index, chunk, load.kind == LoadKind::kScore ? chunk : last_row);
  }

  void Add(size_t index, int64_t tokens, int64_t rows) {
    plan.entries.push_back({index, tokens});
    plan.tokens += tokens;
    tokens_left_ -= tokens;
    rows_left_ -= rows;
  }

  int64_t tokens_left_;
  int64_t rows_left_;
};

}  // namespace

StepPlan FillStep(std::span<const SequenceLoad> loads, const StepLimits& limits) {
  StepFiller filler(limits);
  filler.AddDecodes(loads);
  filler.AddChunks(loads, limits.prefill_beside_decodes);
  return std::move(filler.plan);
}

}  // namespace tenon
