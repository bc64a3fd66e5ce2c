#include "accel/manager/switch_meter.h"

#include <algorithm>
#include <vector>

namespace tenon {

void SwitchMeter::Observe(ModuleBits modules, const StepCost& cost) {
  if (cost.sequences == 0) {
    first_.reset();
    modules_.reset();
    return;
  }
  const bool is_change = modules_.has_value() && modules_->bits() != modules.bits();
  if (first_.has_value() && !is_change && first_->sequences == cost.sequences) {
    recent_.push_back(std::max(0.0, first_->seconds - cost.seconds));
    if (recent_.size() > kMaxSwitches)
      recent_.pop_front();
    ++switches_;
  }
  first_.reset();
  if (is_change)
    first_ = cost;
  modules_ = modules;
}

std::optional<double> SwitchMeter::overhead_s() const {
  if (recent_.size() < kMinSwitches)
    return std::nullopt;
  std::vector<double> sorted(recent_.begin(), recent_.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle);
  return *middle;
}

}  // namespace tenon
