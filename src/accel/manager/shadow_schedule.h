// ShadowSchedule: which modules take part in the next step, so that what each one saves can be told
// from live traffic.
//
// Most steps run as decided: with all active modules. After kBurst / share of them comes a burst of
// kBurst steps that differ in one module, in turn: an active one is left out, a withdrawn one that
// is on trial is let in. The first step of a burst, and the first after it, carry the cost of the
// change (a cache that has to catch up) and are not measured.
//
// Plain data, no clock. Threading: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "accel/manager/module_bits.h"

namespace tenon {

class ShadowSchedule {
 public:
  // `share` of the steps are bursts; 0: none.
  explicit ShadowSchedule(double share);

  struct Step {
    ModuleBits modules;
    std::optional<size_t> subject;  // the module that differs, in a burst
    enum class Use : uint8_t { kMeasure, kChange } use = Use::kMeasure;
    enum class Round : uint8_t { kGoesOn, kEnds } round = Round::kGoesOn;
    // Whose turn it is in this round; the steps outside the burst are its other side.
    std::optional<size_t> turn;
  };

  // The next step, given what is active and what is on trial.
  Step Next(ModuleBits active, ModuleBits trial);

  static constexpr int64_t kBurst = 4;

 private:
  std::optional<size_t> NextTurn(ModuleBits candidates);

  int64_t ordinary_;  // steps between two bursts; 0: no bursts
  int64_t step_ = 0;  // of the round
  std::optional<size_t> turn_;
  size_t last_turn_ = ModuleBits::kMaxModules - 1;
  ModuleBits active_;  // of the round; a change begins a new one
  ModuleBits trial_;
};

}  // namespace tenon
