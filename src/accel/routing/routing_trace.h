// What both models say at every position of a text: the material for training a router and for
// curves of quality against the share of tokens that the large model decides.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "accel/routing/confidence.h"
#include "accel/routing/float_products.h"
#include "base/result.h"
#include "engine/exec/model_runner.h"
#include "hal/thread_pool.h"

namespace tenon {

// One position: both models saw the same tokens before it.
struct TraceRow {
  int32_t window = 0;   // of the text
  int32_t truth = 0;    // the text's token
  RowConfidence small;  // with the model's best token
  RowConfidence large;
  double small_truth_logprob = 0.0;
  double large_truth_logprob = 0.0;
};

struct RoutingTrace {
  std::vector<TraceRow> rows;
  FloatMatrix hidden;  // [rows, H] of the small model; empty when its graph does not give it
};

// Windows of tokens, each evaluated from its beginning; positions from `first` on are recorded.
struct TraceWindow {
  std::vector<int32_t> tokens;
  int64_t first = 1;  // the first token that is predicted, >= 1
};

// REQUIRES: runners that are loaded and used by nobody else, with room for the longest window.
Result<RoutingTrace> TraceModels(ModelRunner& small, ModelRunner& large, ThreadPool& pool,
                                 std::span<const TraceWindow> windows,
                                 const std::function<void(int64_t done)>& on_window);

// CITER's label rule: 1 when the small model's token is right, else 0 when the large one's is.
// Where both are wrong CITER rolls both out and compares final answers; here 1 when they agree
// (asking would change nothing) or the small one found the truth at least as likely.
float RouteLabel(const TraceRow& row);

}  // namespace tenon
