#include "accel/manager/switch_meter.h"

#include <algorithm>

#include "accel/manager/median.h"

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
  return Median({recent_.begin(), recent_.end()});
}

}  // namespace tenon
