#include "accel/manager/preloader.h"

#include <algorithm>
#include <bit>

namespace tenon {

// Kinds by length: powers of two.
size_t Preloader::Arrived(int64_t prompt_tokens, Time now) {
  const auto length = static_cast<uint64_t>(std::max<int64_t>(prompt_tokens, 0));
  const size_t kind =
      std::min(static_cast<size_t>(std::bit_width(length)), NeedPredictor::kKinds - 1);
  needs_.ObserveArrival(kind, now);
  return kind;
}

void Preloader::Needed(size_t kind, ModuleBits active, ModuleBits joined) {
  for (size_t module = 0; module < ModuleBits::kMaxModules; ++module) {
    if (active.Has(module))
      needs_.ObserveNeed(kind, module, joined.Has(module) ? 1.0 : 0.0);
  }
}

void Preloader::Used(ModuleBits modules, Time now) {
  for (size_t module = 0; module < ModuleBits::kMaxModules; ++module) {
    if (modules.Has(module))
      used_[module] = now;
  }
}

ModuleBits Preloader::Due(ModuleBits active, Time now) const {
  ModuleBits warm;
  for (size_t module = 0; module < ModuleBits::kMaxModules; ++module) {
    if (used_[module] != Time() && now - used_[module] < kStaysWarm)
      warm = warm.With(module);
  }
  return ModulesToWarm(needs_, {.horizon = kLead}, active, warm, now);
}

Preloader::Time Preloader::NextLook(Time now) const {
  const auto next = needs_.NextArrival();
  return next.has_value() && *next - kLead > now ? *next - kLead : Time::max();
}

}  // namespace tenon
