// The scheduling policies with a fake clock, and with a fake model whose steps cost what a formula
// says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/sched/batching.h"
#include "engine/sched/queue_order.h"
#include "engine/sched/rebuild_choice.h"
#include "engine/sched/step_plan.h"
#include "engine/sched/step_time_model.h"

namespace tenon {
namespace {

SchedTime At(int64_t milliseconds) {
  return SchedTime(std::chrono::milliseconds(milliseconds));
}

struct EntryCase {
  const char* name;
  BatchingPolicy policy;
  ArrivalState state;
  std::optional<SchedTime> expected;
};

TEST(EntryTimeTest, Table) {
  constexpr auto kContinuous = BatchingPolicy::kContinuous;
  constexpr auto kStatic = BatchingPolicy::kStatic;
  const EntryCase cases[] = {
      {"nobody waits", kContinuous, {0, 0, At(0), At(0)}, std::nullopt},
      {"alone: after the quiet time", kContinuous, {0, 1, At(100), At(100)}, At(102)},
      {"a burst goes on", kContinuous, {0, 5, At(100), At(130)}, At(132)},
      {"but never beyond the window", kContinuous, {0, 5, At(100), At(149)}, At(150)},
      {"a full batch", kContinuous, {0, 8, At(100), At(100)}, SchedTime::min()},
      {"beside a running one", kContinuous, {1, 1, At(100), At(100)}, SchedTime::min()},
      {"the batch is full", kContinuous, {8, 1, At(100), At(100)}, std::nullopt},
      {"static waits for the window", kStatic, {0, 1, At(100), At(100)}, At(150)},
      {"static, full", kStatic, {0, 9, At(100), At(100)}, SchedTime::min()},
      {"static never joins", kStatic, {1, 7, At(100), At(100)}, std::nullopt},
  };
  for (const EntryCase& entry : cases)
    EXPECT_EQ(EntryTime(entry.policy, {8}, entry.state), entry.expected) << entry.name;
  // Fewer may be enough.
  EXPECT_EQ(EntryTime(kContinuous, {8, 3}, {0, 3, At(100), At(100)}), SchedTime::min());
  EXPECT_EQ(EntryTime(kContinuous, {8, 3}, {0, 2, At(100), At(100)}), At(102));
}

// The tenants' letters in the order in which NextToEnter lets everybody in.
std::string EntryOrder(std::vector<WaitingRequest> waiting) {
  TenantTurns turns;
  std::string order;
  while (const auto next = NextToEnter(waiting, turns)) {
    const WaitingRequest& request = waiting[*next];
    order += fmt::format("{}{} ", request.tenant, request.arrival);
    if (request.entry == Entry::kFirst)
      turns.Take(request.tenant);
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(*next));
  }
  return order;
}

TEST(QueueOrderTest, TenantsTakeTurnsInTheOrderOfArrival) {
  EXPECT_EQ(EntryOrder({{3, 0, "a"}, {1, 0, "a"}, {2, 0, "a"}}), "a1 a2 a3 ");
  EXPECT_EQ(EntryOrder({{1, 0, "a"}, {2, 0, "a"}, {3, 0, "a"}, {4, 0, "b"}, {5, 0, "c"}}),
            "a1 b4 c5 a2 a3 ");
}

TEST(QueueOrderTest, PriorityGoesBeforeTurnsAndThePreemptedBeforeAll) {
  EXPECT_EQ(EntryOrder({{1, 0, "a"}, {2, 5, "b"}, {3, 5, "b"}, {4, 9, "c"}}), "c4 b2 b3 a1 ");
  EXPECT_EQ(EntryOrder({{1, 9, "a"}, {6, 0, "b", Entry::kAgain}, {5, 0, "c", Entry::kAgain}}),
            "c5 b6 a1 ");
}

TEST(QueueOrderTest, AManyNamedTenantForgetsTurnsInsteadOfGrowing) {
  TenantTurns turns;
  for (size_t i = 0; i <= TenantTurns::kMaxTenants; ++i)
    turns.Take(std::to_string(i));
  EXPECT_EQ(turns.LastTurn("0"), 0U);
  EXPECT_GT(turns.LastTurn(std::to_string(TenantTurns::kMaxTenants)), 0U);
}

TEST(QueueOrderTest, TheLatestOfTheLowestPriorityGivesWay) {
  const std::vector<RunningRequest> running = {
      {4, 1, 0}, {7, 0, 0}, {9, 0, 0}, {9, 0, 1}, {12, 3, 0}};
  EXPECT_EQ(NextToPreempt(running), 3U);
  EXPECT_EQ(NextToPreempt(std::span(running).first(1)), 0U);
}

std::string Describe(const StepPlan& plan) {
  std::string text;
  for (const StepPlan::Entry& entry : plan.entries)
    text += fmt::format("{}:{} ", entry.sequence, entry.tokens);
  return text;
}

struct FillCase {
  const char* name;
  std::vector<SequenceLoad> loads;
  StepLimits limits;  // tokens, output rows, prefill beside decodes
  const char* expected;
};

TEST(FillStepTest, Table) {
  constexpr auto kDecode = LoadKind::kDecode;
  constexpr auto kPrefill = LoadKind::kPrefill;
  constexpr auto kScore = LoadKind::kScore;
  const FillCase cases[] = {
      {"nothing", {}, {8, 4, 8}, ""},
      {"a prompt in chunks", {{kPrefill, 20}}, {8, 4, 2}, "0:8 "},
      {"decodes first", {{kPrefill, 20}, {kDecode, 1}, {kDecode, 1}}, {8, 4, 8}, "1:1 2:1 0:6 "},
      {"and little beside them", {{kPrefill, 20}, {kDecode, 1}}, {8, 4, 3}, "1:1 0:3 "},
      {"prompts in order", {{kPrefill, 3}, {kPrefill, 9}, {kPrefill, 9}}, {8, 4, 8}, "0:3 1:5 "},
      {"held ones are left out", {{LoadKind::kHeld, 9}, {kPrefill, 9}}, {8, 4, 8}, "1:8 "},
      {"a row for each scored token", {{kScore, 9}, {kPrefill, 9}}, {16, 4, 8}, "0:4 1:8 "},
      {"rows run out before a last token", {{kScore, 4}, {kPrefill, 3}}, {16, 4, 8}, "0:4 1:2 "},
      {"rows of decodes count",
       {{kDecode, 1}, {kDecode, 1}, {kScore, 9}},
       {16, 4, 8},
       "0:1 1:1 2:2 "},
      {"whole ones that fit",
       {{LoadKind::kWhole, 5}, {LoadKind::kWhole, 6}, {LoadKind::kWhole, 3}},
       {8, 4, 8},
       "0:5 2:3 "},
      {"a whole one needs a row", {{kScore, 4}, {LoadKind::kWhole, 3}}, {16, 4, 8}, "0:4 "},
      {"more decodes than tokens",
       {{kDecode, 1}, {kDecode, 1}, {kDecode, 1}},
       {2, 4, 8},
       "0:1 1:1 "},
  };
  for (const FillCase& fill : cases) {
    const StepPlan plan = FillStep(fill.loads, fill.limits);
    EXPECT_EQ(Describe(plan), std::string(fill.expected)) << fill.name;
  }
}

// A model whose step costs 5 ms, 1 ms for each decode and `chunk_ms` for each prefill token.
double FakeStep(int64_t decodes, int64_t chunk, double chunk_ms) {
  return (5.0 + static_cast<double>(decodes) + chunk_ms * static_cast<double>(chunk)) * 1e-3;
}

TEST(StepTimeModelTest, KeepsDecodesUnderTheStretchBesideALongPrefill) {
  for (const double chunk_ms : {0.1, 0.5, 1.0}) {
    for (const int64_t decodes : {1, 4, 16}) {
      StepTimeModel model(32);
      model.Observe(0, 64, FakeStep(0, 64, 0.7));
      for (int i = 0; i < 20; ++i)
        model.Observe(decodes, 0, FakeStep(decodes, 0, 0.0));
      const double idle = FakeStep(decodes, 0, 0.0);
      std::vector<double> steps;
      for (int64_t left = 4000; left > 0;) {
        // Attention over what is there already makes later tokens up to twice as dear.
        const double cost = chunk_ms * (2.0 - static_cast<double>(left) / 4000.0);
        const int64_t chunk = std::min(left, model.ChunkBeside(decodes));
        steps.push_back(FakeStep(decodes, chunk, cost));
        model.Observe(decodes, chunk, steps.back());
        left -= chunk;
      }
      std::ranges::sort(steps);
      EXPECT_LT(steps[steps.size() * 99 / 100], 3.0 * idle) << chunk_ms << " " << decodes;
      // Nor is the prefill starved: half of the time is its own.
      EXPECT_GT(steps[steps.size() / 2], 1.5 * idle) << chunk_ms << " " << decodes;
    }
  }
}

TEST(RebuildChoiceTest, TheCheaperTokenDecides) {
  // Not measured: by the share that is predicted.
  EXPECT_TRUE(PrefersRebuild({0.010, 0.0, 0.4}));
  EXPECT_FALSE(PrefersRebuild({0.010, 0.0, 1.0}));
  // Measured: whatever was predicted.
  EXPECT_FALSE(PrefersRebuild({0.010, 0.012, 0.4}));
  EXPECT_TRUE(PrefersRebuild({0.010, 0.009, 1.0}));
  EXPECT_FALSE(PrefersRebuild({0.010, 0.010, 0.4}));
  // Nothing known of computing.
  EXPECT_FALSE(PrefersRebuild({0.0, 0.0, 0.4}));
  EXPECT_FALSE(PrefersRebuild({0.0, 0.001, 0.4}));
}

TEST(StepTimeModelTest, GuessesBetweenWhatItHasSeen) {
  StepTimeModel model(16);
  EXPECT_EQ(model.ChunkBeside(3), StepTimeModel::kFirstChunk);
  model.Observe(4, 0, 0.010);
  model.Observe(8, 0, 0.020);
  EXPECT_DOUBLE_EQ(model.DecodeSeconds(6), 0.015);
  EXPECT_DOUBLE_EQ(model.DecodeSeconds(2), 0.005);
  EXPECT_DOUBLE_EQ(model.DecodeSeconds(16), 0.020);
  model.Observe(8, 10, 0.030);  // 1 ms a token
  EXPECT_DOUBLE_EQ(model.ChunkTokenSeconds(), 0.001);
  EXPECT_EQ(model.ChunkBeside(8), 20);
  EXPECT_EQ(model.ChunkBeside(8, 3), 60);  // each prompt has its share
  EXPECT_EQ(model.ChunkBeside(8, 30), 80);
}

TEST(StepTimeModelTest, OneSlowStepDoesNotStopAPrefillNorSpeedItUp) {
  StepTimeModel model(16);
  for (int i = 0; i < 20; ++i) {
    model.Observe(8, 0, 0.020);
    model.Observe(8, 20, 0.040);
  }
  model.Observe(8, 20, 2.0);  // the machine did something else
  EXPECT_GE(model.ChunkBeside(8), 10);
  model.Observe(8, 0, 2.0);
  EXPECT_LE(model.ChunkBeside(8), 30);
}

}  // namespace
}  // namespace tenon
