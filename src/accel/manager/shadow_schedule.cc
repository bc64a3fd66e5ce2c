#include "accel/manager/shadow_schedule.h"

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

// With a share of one half, still a few ordinary steps to compare with.
constexpr int64_t kMinOrdinary = 4;

int64_t OrdinarySteps(double share) {
  if (!(share > 0.0))
    return 0;
  const double steps = static_cast<double>(ShadowSchedule::kBurst) * (1.0 - share) / share;
  return std::max(kMinOrdinary, static_cast<int64_t>(std::llround(steps)));
}

ModuleBits Union(ModuleBits a, ModuleBits b) {
  for (size_t i = 0; i < ModuleBits::kMaxModules; ++i)
    a = b.Has(i) ? a.With(i) : a;
  return a;
}

}  // namespace

ShadowSchedule::ShadowSchedule(double share) : ordinary_(OrdinarySteps(share)) {}

std::optional<size_t> ShadowSchedule::NextTurn(ModuleBits candidates) {
  for (size_t i = 1; i <= ModuleBits::kMaxModules; ++i) {
    const size_t module = (last_turn_ + i) % ModuleBits::kMaxModules;
    if (candidates.Has(module)) {
      last_turn_ = module;
      return module;
    }
  }
  return std::nullopt;
}

ShadowSchedule::Step ShadowSchedule::Next(ModuleBits active, ModuleBits trial) {
  if (active != active_ || trial != trial_ || step_ == 0) {
    active_ = active;
    trial_ = trial;
    step_ = 0;
    turn_ = ordinary_ > 0 ? NextTurn(Union(active, trial)) : std::nullopt;
  }
  Step step{active, std::nullopt, Step::Use::kMeasure, Step::Round::kGoesOn, turn_};
  if (!turn_.has_value())
    return step;
  const int64_t in_burst = step_ - ordinary_;
  if (in_burst >= 0) {
    step.subject = turn_;
    step.modules = active.Has(*turn_) ? active.Without(*turn_) : active.With(*turn_);
  }
  if (step_ == 0 || in_burst == 0)
    step.use = Step::Use::kChange;
  if (in_burst == kBurst - 1)
    step.round = Step::Round::kEnds;
  step_ = in_burst == kBurst - 1 ? 0 : step_ + 1;
  return step;
}

}  // namespace tenon
