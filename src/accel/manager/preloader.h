// Preloader: which modules to warm up while nothing runs, from the history of requests, and when to
// look again. A module is warm for a while after a step with it or after it was warmed.
//
// Plain data; times are the caller's. Threading: one thread at a time.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "accel/manager/module_bits.h"
#include "accel/manager/need_predictor.h"

namespace tenon {

class Preloader {
 public:
  using Time = NeedPredictor::Time;

  // A request with a prompt of this many tokens came. Its kind, for Needed.
  size_t Arrived(int64_t prompt_tokens, Time now);
  // A request of `kind` was offered to the modules `active`; those of `joined` took it.
  void Needed(size_t kind, ModuleBits active, ModuleBits joined);
  // A step ran with these modules, or they were warmed.
  void Used(ModuleBits modules, Time now);

  // Of the active modules those that are worth warming now.
  ModuleBits Due(ModuleBits active, Time now) const;
  // When to ask again if nothing comes before; Time::max(): no request is expected later.
  Time NextLook(Time now) const;

  // How long before a request is expected its modules are warmed. Requests come when they like:
  // with much less, half of them would meet a cold module, with much more it is cold again.
  static constexpr std::chrono::milliseconds kLead{500};
  // Weights of some hundred megabytes are out of the caches after less than a second of other
  // work; after some seconds pages and clock rates go as well.
  static constexpr std::chrono::seconds kStaysWarm{5};

 private:
  NeedPredictor needs_;
  std::array<Time, ModuleBits::kMaxModules> used_{};  // last
};

}  // namespace tenon
