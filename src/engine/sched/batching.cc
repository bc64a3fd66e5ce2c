#include "engine/sched/batching.h"

#include <algorithm>

namespace tenon {

std::optional<SchedTime> EntryTime(BatchingPolicy policy, const BatchWindow& limits,
                                   const ArrivalState& state) {
  if (state.waiting == 0)
    return std::nullopt;
  if (state.running > 0) {
    const bool may_join = policy == BatchingPolicy::kContinuous && state.running < limits.max_batch;
    return may_join ? std::optional(SchedTime::min()) : std::nullopt;
  }
  if (state.waiting >= std::min(limits.enough, limits.max_batch))
    return SchedTime::min();
  const SchedTime window_end = state.oldest + limits.window;
  if (policy == BatchingPolicy::kStatic)
    return window_end;
  return std::min(window_end, state.newest + limits.quiet);
}

}  // namespace tenon
