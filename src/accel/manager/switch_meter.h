// SwitchMeter: what it costs to change the modules of a step: the first step after a change against
// the next one of the same kind. Time of catching up with a cache, of cold memory and of setting up
// shows here.
//
// Plain data, no clock. Threading: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "accel/manager/gain_meter.h"
#include "accel/manager/module_bits.h"

namespace tenon {

class SwitchMeter {
 public:
  // A step with these modules. Steps of prefill (cost.sequences == 0) break the comparison off.
  void Observe(ModuleBits modules, const StepCost& cost);

  // Median over the last switches, seconds; none before kMinSwitches.
  std::optional<double> overhead_s() const;
  uint64_t switches() const { return switches_; }  // that were measured

  static constexpr size_t kMinSwitches = 5;
  static constexpr size_t kMaxSwitches = 33;

 private:
  std::optional<ModuleBits> modules_;  // of the step before
  std::optional<StepCost> first_;      // the first one with them, not yet compared
  std::deque<double> recent_;
  uint64_t switches_ = 0;
};

}  // namespace tenon
