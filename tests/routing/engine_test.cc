// The routing engine on two tiny models, against a routing that is written again here in the
// simplest way: both models from nothing at every token.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "accel/module_chain.h"
#include "accel/routing/routing_engine.h"
#include "accel/routing/routing_module.h"
#include "routing/tiny_pair.h"

namespace tenon {
namespace {

using namespace tenon::testing;  // the pair and its caller

constexpr const char* kSmallCase = "llama";
constexpr const char* kLargeCase = "llama_bias_tied";

double Top1(const std::vector<float>& logits) {
  const float best = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float logit : logits)
    sum += std::exp(static_cast<double>(logit - best));
  return 1.0 / sum;
}

int32_t Best(const std::vector<float>& logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

// Tokens in a row below, and at or above, the threshold.
struct Expected {
  std::vector<int32_t> answer;
  std::vector<RouteSide> sides;
};

// The first token after a switch to the large model does not count for the way back: its confidence
// is not measured where the model catches up.
Expected Route(TinyModel& small, TinyModel& large, std::vector<int32_t> tokens, size_t length,
               const RouteRules& rules) {
  Expected expected;
  RouteSide side = RouteSide::kSmall;
  int64_t streak = 0;
  size_t large_known = 0;  // tokens that the large model has computed
  while (expected.answer.size() < length) {
    const bool is_small = side == RouteSide::kSmall;
    const std::vector<float> logits = (is_small ? small : large).Logits(tokens);
    const bool is_sure = Top1(logits) >= rules.threshold;
    if (is_small) {
      streak = is_sure ? 0 : streak + 1;
      if (streak >= rules.hysteresis) {
        side = RouteSide::kLarge;
        streak = 0;
        continue;
      }
    } else {
      const bool is_measured = tokens.size() - large_known == 1;
      large_known = tokens.size();
      if (is_measured)
        streak = is_sure ? streak + 1 : 0;
      if (streak >= rules.return_after) {
        side = RouteSide::kSmall;
        streak = 0;
      }
    }
    tokens.push_back(Best(logits));
    expected.answer.push_back(tokens.back());
    expected.sides.push_back(is_small ? RouteSide::kSmall : RouteSide::kLarge);
  }
  return expected;
}

class RoutingEngineTest : public ::testing::Test {
 protected:
  RoutingEngineTest() : plain_(large_.runner(), large_.pool()) {
    options_.rules.max_switches_per_s = 0;
    options_.rules.loop_tokens = 0;
    options_.rules.hysteresis = 2;
    options_.rules.return_after = 2;
    options_.rules.threshold = MedianTop1();
    options_.rules.return_threshold = options_.rules.threshold;
    options_.verify_every = 0;
  }

  // Half of what the small model says along its own answer is more certain than this.
  double MedianTop1() {
    std::vector<double> all;
    std::vector<int32_t> tokens = TinyPrompt(5, 1);
    for (int i = 0; i < 31; ++i) {
      const auto logits = small_.Logits(tokens);
      all.push_back(Top1(logits));
      tokens.push_back(Best(logits));
    }
    std::ranges::sort(all);
    // Not on a value that occurs: rounding must not decide.
    return (all[15] + all[16]) / 2;
  }

  std::unique_ptr<RoutingEngine> Make() {
    auto engine =
        std::make_unique<RoutingEngine>(small_.runner(), small_.pool(), nullptr, options_);
    engine->Attach(plain_, 1);
    return engine;
  }

  TinyModel small_{kSmallCase};
  TinyModel large_{kLargeCase};
  PlainEngine plain_;
  RoutingOptions options_;
};

TEST_F(RoutingEngineTest, OneSideAloneIsThatModel) {
  const auto prompt = TinyPrompt(11, 3);
  PlainEngine small_plain(small_.runner(), small_.pool());
  options_.rules.threshold = 0.0;
  EXPECT_EQ(Complete(*Make(), large_.runner(), prompt, 40),
            Complete(small_plain, small_.runner(), prompt, 40));
  options_.rules.threshold = 1.01;
  options_.rules.return_threshold = 1.01;
  options_.rules.hysteresis = 1;
  const auto engine = Make();
  EXPECT_EQ(Complete(*engine, large_.runner(), prompt, 40),
            Complete(plain_, large_.runner(), prompt, 40));
  EXPECT_EQ(engine->counters().large_tokens, 40U);
  EXPECT_EQ(engine->counters().offered, 1U);
}

TEST_F(RoutingEngineTest, EqualsTheSimpleRouting) {
  int64_t switches = 0;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    const auto prompt = TinyPrompt(3 + seed * 7, seed);
    const Expected expected = Route(small_, large_, prompt, 60, options_.rules);
    for (const int64_t chunk : {64, 5, 1}) {
      const auto engine = Make();
      EXPECT_EQ(Complete(*engine, large_.runner(), prompt, 60, 1, chunk), expected.answer)
          << "seed " << seed << " chunk " << chunk;
      const auto audit = engine->Audit(1);
      ASSERT_EQ(audit.size(), 60U);
      for (size_t i = 0; i < audit.size(); ++i)
        EXPECT_EQ(audit[i].side, expected.sides[i]) << i;
      switches += static_cast<int64_t>(engine->counters().switches);
    }
  }
  EXPECT_GT(switches, 60);  // otherwise this test says little
}

TEST_F(RoutingEngineTest, SequencesTogetherAreAsAlone) {
  std::vector<std::unique_ptr<Answering>> answers;
  std::vector<std::vector<int32_t>> expected;
  for (uint32_t i = 0; i < 9; ++i) {
    const auto prompt = TinyPrompt(4 + i * 3, 50 + i);
    expected.push_back(Route(small_, large_, prompt, 30 + i, options_.rules).answer);
    answers.push_back(std::make_unique<Answering>(large_.runner(), i, prompt));
  }
  const auto engine = Make();
  for (int step = 0; step < 1000 && !AllDone(answers, 38); ++step)
    StepOnce(*engine, answers, 38, 7);
  for (size_t i = 0; i < answers.size(); ++i) {
    auto answer = answers[i]->answer();
    answer.resize(expected[i].size());
    EXPECT_EQ(answer, expected[i]) << i;
  }
  for (uint32_t i = 0; i < 9; ++i)
    engine->Forget(i);
  EXPECT_EQ(engine->sequences(), 0);
}

// What was said before is remembered: the same answer, fewer small steps.
TEST_F(RoutingEngineTest, RememberedDecisionsChangeNothing) {
  const auto prompt = TinyPrompt(9, 4);
  const auto engine = Make();
  const auto first = Complete(*engine, large_.runner(), prompt, 50, 1);
  const uint64_t steps = engine->counters().small_steps;
  EXPECT_EQ(engine->counters().skipped, 0U);
  EXPECT_EQ(Complete(*engine, large_.runner(), prompt, 50, 2), first);
  EXPECT_GT(engine->counters().skipped, 0U);
  EXPECT_LT(engine->counters().small_steps - steps, steps);
}

TEST_F(RoutingEngineTest, ReplaysAgreeAndFindACorruptCache) {
  options_.verify_every = 1;
  options_.max_cache_length = 4096;
  const auto prompt = TinyPrompt(9, 4);
  const auto engine = Make();
  Complete(*engine, large_.runner(), prompt, 200, 1);
  ASSERT_TRUE(engine->FinishReplays().ok());
  EXPECT_GT(engine->counters().replays, 5U);
  EXPECT_EQ(engine->counters().replay_failures, 0U);
  // As if decisions had been remembered of another state: every known prefix of another prompt.
  std::vector<int32_t> tokens = TinyPrompt(12, 77);
  PlainEngine small_plain(small_.runner(), small_.pool());
  const auto answer = Complete(small_plain, small_.runner(), tokens, 100);
  for (size_t i = 0; i <= answer.size(); ++i) {
    PrefixHash hash;
    hash.Extend(tokens);
    const double right = Top1(small_.Logits(tokens));
    engine->cache().Put(hash.value(), right >= options_.rules.threshold ? 1.0 : 0.999);
    if (i < answer.size())
      tokens.push_back(answer[i]);
  }
  Complete(*engine, large_.runner(), TinyPrompt(12, 77), 100, 2);
  ASSERT_TRUE(engine->FinishReplays().ok());
  EXPECT_GT(engine->counters().replay_failures, 0U);
}

TEST_F(RoutingEngineTest, WithoutRoomTheLargeModelGoesOn) {
  TinyModel tight(kSmallCase, 64);
  RoutingEngine engine(tight.runner(), tight.pool(), nullptr, options_);
  engine.Attach(plain_, 1);
  std::vector<std::unique_ptr<Answering>> answers;
  for (uint32_t i = 0; i < 6; ++i)
    answers.push_back(std::make_unique<Answering>(large_.runner(), i, TinyPrompt(20, i)));
  for (int step = 0; step < 1000 && !AllDone(answers, 60); ++step)
    StepOnce(engine, answers, 60, 8);
  EXPECT_TRUE(AllDone(answers, 60));
  EXPECT_GT(engine.counters().small_kv_full, 0U);
}

TEST_F(RoutingEngineTest, MayComeAndGoInTheMiddle) {
  const auto engine = Make();
  std::vector<std::unique_ptr<Answering>> answers;
  for (uint32_t i = 0; i < 3; ++i)
    answers.push_back(std::make_unique<Answering>(large_.runner(), i, TinyPrompt(20, i)));
  for (int step = 0; step < 1000 && !AllDone(answers, 80); ++step)
    StepOnce(*engine, answers, 80, 64, step / 7 % 2 == 0 ? kAllModules : kNoModules);
  EXPECT_TRUE(AllDone(answers, 80));
  EXPECT_GT(engine->counters().small_tokens, 0U);
  EXPECT_GT(engine->counters().large_tokens, 0U);
}

// The large model follows in pieces: the same answers, and a switch finds it close behind.
TEST_F(RoutingEngineTest, PreloadingChangesOnlyTheLag) {
  options_.rules.hysteresis = 3;
  const auto prompt = TinyPrompt(50, 21);
  const std::vector<int32_t> expected = Route(small_, large_, prompt, 60, options_.rules).answer;
  const auto lag = [&](double need) {
    options_.preload_need = need;
    options_.max_cache_length = 0;
    const auto engine = Make();
    for (SequenceKey key = 1; key <= 4; ++key) {
      EXPECT_EQ(Complete(*engine, large_.runner(), prompt, 60, key), expected);
      engine->Forget(key);
    }
    EXPECT_EQ(engine->counters().preloaded > 0, need <= 1.0);
    return engine->counters();
  };
  const RoutingCounters without = lag(1.01);
  EXPECT_GE(without.largest_lag, 50U);
  const RoutingCounters with = lag(0.5);
  EXPECT_GT(with.preloaded, 100U);
}

// The large model, called at once after it was preloaded, has a token left to say something about:
// also where pieces end just at the last known token.
TEST_F(RoutingEngineTest, PreloadingLeavesTheLastToken) {
  options_.rules.threshold = 1.01;
  options_.rules.return_threshold = 1.01;
  options_.preload_need = 0.0;
  for (const int64_t hysteresis : {1, 2}) {
    options_.rules.hysteresis = hysteresis;
    for (int64_t length = RoutingEngine::kPreloadPiece - 1; length <= 34; ++length) {
      const auto prompt = TinyPrompt(static_cast<size_t>(length), 5);
      EXPECT_EQ(Complete(*Make(), large_.runner(), prompt, 8),
                Route(small_, large_, prompt, 8, options_.rules).answer)
          << length << " tokens, hysteresis " << hysteresis;
    }
  }
}

// A model that always repeats one token is certain of it.
TEST_F(RoutingEngineTest, ALoopIsHandedOver) {
  options_.rules.threshold = 0.0;
  options_.rules.return_threshold = 1.01;
  const auto prompt = std::vector<int32_t>(40, 5);
  options_.rules.loop_tokens = 16;
  options_.rules.hysteresis = 1;
  const auto engine = Make();
  Complete(*engine, large_.runner(), prompt, 10);
  EXPECT_EQ(engine->counters().switches, 1U);
}

TEST_F(RoutingEngineTest, SamplingIsTheRequestsOwn) {
  // With the small model alone, a sampled answer is that model's with the same seed.
  options_.rules.threshold = 0.0;
  SamplingParams params;
  params.seed = 42;
  PlainEngine small_plain(small_.runner(), small_.pool());
  std::vector<std::unique_ptr<Answering>> routed;
  std::vector<std::unique_ptr<Answering>> alone;
  const auto prompt = TinyPrompt(8, 9);
  routed.push_back(std::make_unique<Answering>(large_.runner(), 1, prompt, params));
  alone.push_back(std::make_unique<Answering>(small_.runner(), 1, prompt, params));
  const auto engine = Make();
  for (int step = 0; step < 50; ++step) {
    StepOnce(*engine, routed, 50);
    StepOnce(small_plain, alone, 50);
  }
  EXPECT_EQ(routed[0]->answer(), alone[0]->answer());
}

}  // namespace
}  // namespace tenon
