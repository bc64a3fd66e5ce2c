// NeedPredictor: which modules the next request is likely to need, and when it may come, from the
// requests so far. What is warmed up then costs nothing when it is needed.
//
// A first-order chain: what followed requests of the latest request's kind, older observations
// counting less. Plain data; times are the caller's. Threading: one thread at a time.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "accel/manager/module_bits.h"

namespace tenon {

class NeedPredictor {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Kinds are the caller's, such as classes of prompt length; beyond the last one all are alike.
  static constexpr size_t kKinds = 16;

  // A request of `kind` came at `now`.
  void ObserveArrival(size_t kind, Time now);
  // A request of `kind` turned out to need (or, having been offered it, not to need) the module.
  void ObserveNeed(size_t kind, size_t module, double need);

  // The share of requests of `kind` that need the module, 0 to 1; kUnknown with nothing observed.
  double NeedOf(size_t kind, size_t module) const;
  // The same for the request that comes next, whose kind is not known.
  double NextNeed(size_t module) const;
  // When it is expected; none before two arrivals.
  std::optional<Time> NextArrival() const;

  // Without history a module is as likely needed as not.
  static constexpr double kUnknown = 0.5;
  // Weight of the past against one more observation: about the last twenty count.
  static constexpr double kDecay = 0.95;

 private:
  struct Rate {
    double weight = 0.0;
    double needed = 0.0;
  };

  std::array<std::array<double, kKinds>, kKinds> follows_{};  // [kind][kind that came next]
  std::array<std::array<Rate, ModuleBits::kMaxModules>, kKinds> needs_{};
  std::optional<size_t> last_kind_;
  Time last_arrival_;
  double interval_s_ = 0.0;  // smoothed; 0: unknown
};

// Modules worth warming up now: not warm, needed with at least this probability by a request that
// is expected before `horizon` has passed.
struct PreloadRule {
  double min_need = 0.5;
  std::chrono::nanoseconds horizon = std::chrono::seconds(30);
};
ModuleBits ModulesToWarm(const NeedPredictor& predictor, const PreloadRule& rule, ModuleBits active,
                         ModuleBits warm, NeedPredictor::Time now);

}  // namespace tenon
