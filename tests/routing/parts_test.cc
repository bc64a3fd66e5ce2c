// The parts of routing: confidence, the state of one sequence, the cache, the loop guard.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "accel/routing/confidence.h"
#include "accel/routing/decision_cache.h"
#include "accel/routing/route_state.h"
#include "accel/routing/routing_options.h"
#include "accel/routing/routing_trace.h"

namespace tenon {
namespace {

using Verdict = RouteState::Verdict;
using Time = RouteState::Time;

Time At(int64_t milliseconds) {
  return Time(std::chrono::milliseconds(milliseconds));
}

TEST(ConfidenceTest, KnownDistribution) {
  // Probabilities 1/2, 1/4, 1/8, 1/8: H = 1.75 bits of 2.
  const float logits[] = {std::log(2.0F), std::log(1.0F), std::log(4.0F), std::log(1.0F)};
  const RowConfidence row = MeasureConfidence(logits);
  EXPECT_EQ(row.best, 2);
  EXPECT_NEAR(row.top1, 0.5, 1e-6);
  EXPECT_NEAR(row.margin, 0.25, 1e-6);
  EXPECT_NEAR(row.entropy, 1.0 - 1.75 / 2.0, 1e-6);
  EXPECT_NEAR(row.log_sum_exp, std::log(8.0), 1e-6);
}

TEST(ConfidenceTest, Extremes) {
  const float inf = std::numeric_limits<float>::infinity();
  const float certain[] = {-inf, 1000.0F, -inf};
  EXPECT_DOUBLE_EQ(MeasureConfidence(certain).top1, 1.0);
  EXPECT_DOUBLE_EQ(MeasureConfidence(certain).margin, 1.0);
  EXPECT_DOUBLE_EQ(MeasureConfidence(certain).entropy, 1.0);
  const float flat[] = {-7.0F, -7.0F, -7.0F, -7.0F};
  EXPECT_EQ(MeasureConfidence(flat).best, 0);
  EXPECT_NEAR(MeasureConfidence(flat).top1, 0.25, 1e-9);
  EXPECT_NEAR(MeasureConfidence(flat).margin, 0.0, 1e-9);
  EXPECT_NEAR(MeasureConfidence(flat).entropy, 0.0, 1e-9);
}

TEST(RouteStateTest, SwitchesAfterUncertainTokensInARow) {
  RouteRules rules;
  RouteState state;
  EXPECT_EQ(state.Offer(rules, 0.2, At(0)), Verdict::kKeep);
  EXPECT_EQ(state.Offer(rules, 0.2, At(1)), Verdict::kKeep);
  EXPECT_EQ(state.Offer(rules, 0.85, At(2)), Verdict::kKeep);  // at the threshold: sure enough
  EXPECT_EQ(state.Offer(rules, 0.84, At(3)), Verdict::kKeep);
  EXPECT_EQ(state.Offer(rules, 0.84, At(4)), Verdict::kKeep);
  EXPECT_EQ(state.Offer(rules, 0.84, At(5)), Verdict::kSwitch);
  EXPECT_EQ(state.side(), RouteSide::kLarge);
}

TEST(RouteStateTest, ComesBackAfterSureTokensInARow) {
  RouteRules rules;
  RouteState state;
  state.GoLarge(At(0));
  for (const double confidence : {0.9, 0.9, 0.1, 0.9, 0.9}) {
    state.LargeDecided(rules, confidence, At(1000));
    EXPECT_EQ(state.side(), RouteSide::kLarge);
  }
  state.LargeDecided(rules, 0.9, At(1000));
  EXPECT_EQ(state.side(), RouteSide::kSmall);
  EXPECT_EQ(state.switches(), 2);
}

// The worst case, every token calling for a switch: never more than five in any second, and it is
// the way back that waits.
TEST(RouteStateTest, AtMostFiveSwitchesInAnySecond) {
  RouteRules rules;
  rules.hysteresis = 1;
  rules.return_after = 1;
  RouteState state;
  std::vector<int64_t> switched;
  for (int64_t ms = 0; ms < 5000; ms += 10) {
    const int64_t before = state.switches();
    if (state.side() == RouteSide::kLarge) {
      state.LargeDecided(rules, 1.0, At(ms));
    } else {
      EXPECT_EQ(state.Offer(rules, 0.0, At(ms)), Verdict::kSwitch);
    }
    if (state.switches() > before)
      switched.push_back(ms);
  }
  for (size_t i = 5; i < switched.size(); ++i)
    EXPECT_GE(switched[i] - switched[i - 5], 1000);
  EXPECT_GE(switched.size(), 15U);
  rules.max_switches_per_s = 0;
  state.GoLarge(At(6000));
  state.LargeDecided(rules, 1.0, At(6000));
  EXPECT_EQ(state.side(), RouteSide::kSmall);
}

TEST(RouteStateTest, RulesAreChecked) {
  RouteRules rules;
  EXPECT_TRUE(CheckRouteRules(rules).ok());
  rules.threshold = std::nan("");
  EXPECT_EQ(CheckRouteRules(rules).error().where, "threshold");
  rules = {};
  rules.hysteresis = 0;
  EXPECT_EQ(CheckRouteRules(rules).error().where, "hysteresis");
  rules = {};
  rules.max_switches_per_s = 1;
  EXPECT_EQ(CheckRouteRules(rules).error().where, "max_switches_per_s");
}

std::vector<int32_t> Repeated(std::vector<int32_t> unit, size_t times, std::vector<int32_t> tail) {
  std::vector<int32_t> all = {900, 901, 902};
  for (size_t i = 0; i < times; ++i)
    all.insert(all.end(), unit.begin(), unit.end());
  all.insert(all.end(), tail.begin(), tail.end());
  return all;
}

TEST(LoopGuardTest, FindsPeriods) {
  EXPECT_FALSE(EndsInLoop(Repeated({1}, 15, {}), 16));
  EXPECT_TRUE(EndsInLoop(Repeated({1}, 16, {}), 16));
  EXPECT_FALSE(EndsInLoop(Repeated({1}, 40, {2}), 16));
  EXPECT_TRUE(EndsInLoop(Repeated({1, 2, 3, 4, 5}, 4, {1, 2}), 16));
  EXPECT_FALSE(EndsInLoop(Repeated({1, 2, 3, 4, 5, 6, 7, 8, 9}, 2, {1, 2}), 16));  // twice only
  EXPECT_TRUE(EndsInLoop(Repeated({1, 2, 3, 4, 5, 6, 7, 8, 9}, 3, {}), 16));
  EXPECT_FALSE(EndsInLoop(Repeated({1}, 40, {}), 0));
  EXPECT_FALSE(EndsInLoop({}, 16));
}

TEST(DecisionCacheTest, KeepsTheLatest) {
  DecisionCache cache(2);
  cache.Put(1, 0.1);
  cache.Put(2, 0.2);
  EXPECT_EQ(cache.Find(1), 0.1);  // used: 2 is now the oldest
  cache.Put(3, 0.3);
  EXPECT_EQ(cache.Find(2), std::nullopt);
  EXPECT_EQ(cache.Find(1), 0.1);
  EXPECT_EQ(cache.Find(3), 0.3);
  cache.Put(3, 0.4);
  EXPECT_EQ(cache.Find(3), 0.4);
  EXPECT_EQ(cache.size(), 2U);
  EXPECT_EQ(cache.hits(), 4U);
  DecisionCache none(0);
  none.Put(1, 0.5);
  EXPECT_EQ(none.Find(1), std::nullopt);
}

TEST(DecisionCacheTest, PrefixesDiffer) {
  PrefixHash a;
  PrefixHash b;
  const int32_t one[] = {1, 2, 3};
  const int32_t two[] = {1, 3, 2};
  a.Extend(one);
  b.Extend(two);
  EXPECT_NE(a.value(), b.value());
  PrefixHash pieces;
  pieces.Extend(std::span(one).first(1));
  pieces.Extend(std::span(one).subspan(1));
  EXPECT_EQ(a.value(), pieces.value());
  const int32_t zero[] = {0};
  PrefixHash empty;
  PrefixHash zeros;
  zeros.Extend(zero);
  EXPECT_NE(empty.value(), zeros.value());
}

TEST(RouteLabelTest, TheRule) {
  const auto label = [](int32_t small, int32_t large, double p_small, double p_large) {
    TraceRow row;
    row.truth = 7;
    row.small.best = small;
    row.large.best = large;
    row.small_truth_logprob = p_small;
    row.large_truth_logprob = p_large;
    return RouteLabel(row);
  };
  EXPECT_EQ(label(7, 7, 0, 0), 1.0F);
  EXPECT_EQ(label(7, 5, -1, -2), 1.0F);
  EXPECT_EQ(label(5, 7, -2, -1), 0.0F);
  EXPECT_EQ(label(5, 5, -3, -1), 1.0F);  // both wrong and alike: asking changes nothing
  EXPECT_EQ(label(5, 6, -3, -1), 0.0F);
  EXPECT_EQ(label(5, 6, -1, -3), 1.0F);
}

TEST(RoutingOptionsTest, NamesWhatIsWrong) {
  const auto where = [](const char* text) {
    const auto options = ReadRoutingOptions("routing", nlohmann::json::parse(text));
    return options.ok() ? "" : options.error().where;
  };
  EXPECT_EQ(where(R"({"small": "a", "threshold": 0.9, "max_cache_length": 0})"), "");
  EXPECT_EQ(where(R"({})"), "modules.routing.small");
  EXPECT_EQ(where(R"({"small": "a", "threshold": 2})"), "modules.routing.threshold");
  EXPECT_EQ(where(R"({"small": "a", "treshold": 0.9})"), "modules.routing.treshold");
  EXPECT_EQ(where(R"({"small": "a", "score": "trained"})"), "modules.routing.router");
  EXPECT_EQ(where(R"({"small": "a", "max_switches_per_s": 1})"),
            "modules.routing.max_switches_per_s");
  const auto options = ReadRoutingOptions(
      "routing", nlohmann::json::parse(R"({"small": "a", "router": "f", "hysteresis": 2})"));
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->score, RouteScore::kTrained);
  EXPECT_EQ(options->rules.return_after, 2);
}

}  // namespace
}  // namespace tenon
