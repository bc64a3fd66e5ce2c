#include "accel/self_spec/draft_level.h"

namespace tenon {

void DraftLevel::Observe(int64_t proposed, int64_t accepted) {
  proposed_ += proposed;
  accepted_ += accepted;
  if (proposed_ < kWindow)
    return;
  const double rate = static_cast<double>(accepted_) / static_cast<double>(proposed_);
  if (rate > options_.max_acceptance_rate && level_ + 1 < options_.levels)
    ++level_;
  else if (rate < options_.min_acceptance_rate && level_ > 0)
    --level_;
  proposed_ = 0;
  accepted_ = 0;
}

}  // namespace tenon
