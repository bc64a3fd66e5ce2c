// RouteState: which of two models decides one sequence's next token.
//
// The small model goes on as long as its confidence holds; after `hysteresis` uncertain tokens in a
// row the last of them is dropped and the large one takes over (CITER's rule with R2R's window). It
// hands back after `hysteresis` tokens in a row that it was itself sure of: if it is sure, the
// small one is likely right as well, and asking the small one all the time would cost its step each
// time.
//
// At most `max_switches_per_s` switches in any second: beyond it a change of model costs more than
// it saves. What has to wait is the way back, so that quality never pays for it.
//
// A small model that repeats itself is very sure of it, so repetition counts as uncertain.
//
// Plain data; times are the caller's. Threading: one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <span>

#include "base/result.h"

namespace tenon {

enum class RouteSide : uint8_t { kSmall, kLarge };

struct RouteRules {
  double threshold = 0.85;         // of the small model's confidence
  double return_threshold = 0.85;  // of the large model's
  int64_t hysteresis = 3;          // tokens in a row
  int64_t return_after = 3;        // tokens in a row
  int64_t max_switches_per_s = 5;  // of one sequence; 0: no limit
  int64_t loop_tokens = 16;        // repeated tokens that make a loop; 0: no guard
};

// Fails with kInvalidArgument, naming the field.
Status CheckRouteRules(const RouteRules& rules);

// Whether the end of `tokens` repeats itself: its last `loop_tokens` or more tokens, and at least
// three times a period, have one period of at most kMaxLoopPeriod.
inline constexpr size_t kMaxLoopPeriod = 32;
bool EndsInLoop(std::span<const int32_t> tokens, int64_t loop_tokens);

class RouteState {
 public:
  using Time = std::chrono::steady_clock::time_point;

  enum class Verdict : uint8_t {
    kKeep,    // the small model's token stands
    kSwitch,  // it is dropped; the large model decides from here on
  };
  // The small model offers a token of this confidence. REQUIRES: side() is kSmall.
  Verdict Offer(const RouteRules& rules, double confidence, Time now);

  // The large model decided a token with this confidence. REQUIRES: side() is kLarge.
  void LargeDecided(const RouteRules& rules, double confidence, Time now);

  // From outside: the small model can't go on.
  void GoLarge(Time now);

  RouteSide side() const { return side_; }
  int64_t switches() const { return switches_; }
  // Uncertain tokens in a row so far: the large model may be needed soon.
  int64_t low_streak() const { return low_streak_; }

 private:
  void Switch(RouteSide side, Time now);
  bool MayReturn(const RouteRules& rules, Time now);

  RouteSide side_ = RouteSide::kSmall;
  int64_t low_streak_ = 0;
  int64_t sure_streak_ = 0;
  int64_t switches_ = 0;
  std::deque<Time> recent_;  // switches of the last second
};

}  // namespace tenon
