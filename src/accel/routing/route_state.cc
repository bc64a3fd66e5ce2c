#include "accel/routing/route_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace tenon {
namespace {

constexpr std::chrono::seconds kSecond{1};

Status CheckRange(double value, double low, double high, const char* field) {
  if (value >= low && value <= high)
    return {};
  return InvalidArgument(fmt::format("found {}, expected {} to {}", value, low, high), field);
}

}  // namespace

Status CheckRouteRules(const RouteRules& rules) {
  constexpr double kMany = 1e6;
  // Above 1 nothing is sure enough: everything is routed.
  TENON_RETURN_IF_ERROR(CheckRange(rules.threshold, 0.0, 1.01, "threshold"));
  TENON_RETURN_IF_ERROR(CheckRange(rules.return_threshold, 0.0, 1.01, "return_threshold"));
  TENON_RETURN_IF_ERROR(CheckRange(static_cast<double>(rules.hysteresis), 1, kMany, "hysteresis"));
  TENON_RETURN_IF_ERROR(
      CheckRange(static_cast<double>(rules.return_after), 1, kMany, "return_after"));
  // One a second would be a way there without a way back.
  if (rules.max_switches_per_s == 1)
    return InvalidArgument("found 1, expected 0 (no limit) or 2 and more", "max_switches_per_s");
  TENON_RETURN_IF_ERROR(
      CheckRange(static_cast<double>(rules.max_switches_per_s), 0, kMany, "max_switches_per_s"));
  return CheckRange(static_cast<double>(rules.loop_tokens), 0, kMany, "loop_tokens");
}

bool EndsInLoop(std::span<const int32_t> tokens, int64_t loop_tokens) {
  if (loop_tokens <= 0)
    return false;
  for (size_t period = 1; period <= kMaxLoopPeriod; ++period) {
    const size_t length = std::max(static_cast<size_t>(loop_tokens), 3 * period);
    if (length > tokens.size())
      continue;
    const auto end = tokens.last(length);
    if (std::equal(end.begin() + static_cast<std::ptrdiff_t>(period), end.end(), end.begin()))
      return true;
  }
  return false;
}

RouteState::Verdict RouteState::Offer(const RouteRules& rules, double confidence, Time now) {
  low_streak_ = confidence >= rules.threshold ? 0 : low_streak_ + 1;
  if (low_streak_ < rules.hysteresis)
    return Verdict::kKeep;
  Switch(RouteSide::kLarge, now);
  return Verdict::kSwitch;
}

void RouteState::LargeDecided(const RouteRules& rules, double confidence, Time now) {
  sure_streak_ = confidence >= rules.return_threshold ? sure_streak_ + 1 : 0;
  if (sure_streak_ >= rules.return_after && MayReturn(rules, now))
    Switch(RouteSide::kSmall, now);
}

void RouteState::GoLarge(Time now) {
  if (side_ == RouteSide::kSmall)
    Switch(RouteSide::kLarge, now);
}

void RouteState::Switch(RouteSide side, Time now) {
  side_ = side;
  low_streak_ = 0;
  sure_streak_ = 0;
  ++switches_;
  recent_.push_back(now);
}

// The way back is open when there is room for it and for the next way there.
bool RouteState::MayReturn(const RouteRules& rules, Time now) {
  while (!recent_.empty() && now - recent_.front() >= kSecond)
    recent_.pop_front();
  return rules.max_switches_per_s == 0 ||
         static_cast<int64_t>(recent_.size()) + 2 <= rules.max_switches_per_s;
}

}  // namespace tenon
