#include "accel/manager/integrity_meter.h"

#include <algorithm>

namespace tenon {

void IntegrityMeter::Observe(int64_t checks, int64_t failures) {
  if (checks <= 0)
    return;
  batches_.push_back({checks, failures});
  checks_ += checks;
  failures_ += failures;
  total_checks_ += static_cast<uint64_t>(checks);
  total_failures_ += static_cast<uint64_t>(failures);
  while (batches_.size() > 1 && checks_ > kMaxChecks) {
    checks_ -= batches_.front().checks;
    failures_ -= batches_.front().failures;
    batches_.pop_front();
  }
}

void IntegrityMeter::Reset() {
  batches_.clear();
  checks_ = 0;
  failures_ = 0;
}

double IntegrityMeter::FailureShare() const {
  return static_cast<double>(failures_) / static_cast<double>(std::max(checks_, kMinChecks));
}

bool IntegrityMeter::Exceeds(double limit) const {
  return FailureShare() > limit;
}

}  // namespace tenon
