// The policies of speculation over plain data: n-gram look-up, acceptance, draft length, bytes.
#include <gtest/gtest.h>

#include "accel/ngram/ngram_source.h"
#include "accel/self_spec/byte_model.h"
#include "accel/self_spec/draft_level.h"
#include "accel/speculation/acceptance.h"
#include "accel/speculation/draft_length.h"

namespace tenon {
namespace {

std::vector<int32_t> Continuation(const std::vector<int32_t>& tokens, const NgramOptions& options,
                                  int64_t most) {
  const auto found = FindContinuation(tokens, options, most);
  return {found.begin(), found.end()};
}

TEST(NgramTest, FindsTheLongestThenTheLatest) {
  const NgramOptions options{4, 2};
  using Tokens = std::vector<int32_t>;
  EXPECT_EQ(Continuation({1, 2, 3, 4, 9, 1, 2}, options, 3), (Tokens{3, 4, 9}));
  // (8 1 2) is longer than the later (1 2).
  EXPECT_EQ(Continuation({8, 1, 2, 5, 7, 1, 2, 6, 8, 1, 2}, options, 1), (Tokens{5}));
  // Of equal ones the latest.
  EXPECT_EQ(Continuation({1, 2, 5, 1, 2, 6, 1, 2}, options, 1), (Tokens{6}));
  // A run goes on: the occurrence may overlap the end.
  EXPECT_EQ(Continuation({4, 4, 4}, options, 5), (Tokens{4}));
  EXPECT_EQ(Continuation({1, 2, 3, 1, 9, 1}, options, 5), Tokens());  // one token is no evidence
  EXPECT_EQ(Continuation({1, 2, 3}, options, 5), Tokens());
  EXPECT_EQ(Continuation({}, options, 5), Tokens());
  EXPECT_EQ(Continuation({7, 7}, options, 0), Tokens());
  EXPECT_EQ(Continuation({7, 3, 7}, {4, 1}, 5), (Tokens{3, 7}));
}

TEST(AcceptanceTest, ExpectsTheGeometricSum) {
  const Acceptance acceptance(0.5);
  EXPECT_DOUBLE_EQ(acceptance.ExpectedTokens(0), 1.0);
  EXPECT_DOUBLE_EQ(acceptance.ExpectedTokens(3), 1.0 + 0.5 + 0.25 + 0.125);
}

TEST(AcceptanceTest, FollowsWhatItSees) {
  Acceptance good(0.5);
  Acceptance bad(0.5);
  for (int i = 0; i < 30; ++i) {
    good.Observe(4, 4);
    bad.Observe(4, 0);
  }
  EXPECT_GT(good.rate(), 0.95);
  EXPECT_LT(bad.rate(), 0.05);
  for (int i = 0; i < 30; ++i)
    bad.Observe(4, 4);
  EXPECT_GT(bad.rate(), 0.8);  // what was long ago fades
}

// Steps whose cost grows by `slope` for each token beside the first.
DraftLength Trained(double slope, double guess_s) {
  DraftLength length({LengthPolicy::kAdaptive, 6, 64});
  for (int64_t tokens = 1; tokens <= 7; ++tokens)
    length.ObserveStep(tokens, 0.010 * (1.0 + slope * static_cast<double>(tokens - 1)));
  length.ObserveGuesses(1, guess_s);
  return length;
}

Acceptance WithRate(double rate) {
  return Acceptance(rate);
}

TEST(DraftLengthTest, TakesTheLengthWithTheHighestRate) {
  const Acceptance acceptance = WithRate(0.8);
  const std::vector<const Acceptance*> one = {&acceptance};
  // Free verification and guesses: as many as allowed.
  EXPECT_EQ(Trained(0.0, 0.0).Choose(one, 1, 6), 6);
  EXPECT_EQ(Trained(0.0, 0.0).Choose(one, 1, 3), 3);
  EXPECT_EQ(Trained(0.0, 0.0).Choose(one, 1, 0), 0);
  // Dear ones: against the formula by hand, every length.
  DraftLength length = Trained(0.2, 0.002);
  int64_t best = 0;
  double best_rate = 1.0 / 0.010;
  for (int64_t g = 1; g <= 6; ++g) {
    const double seconds =
        0.010 * (1.0 + 0.2 * static_cast<double>(g)) + 0.002 * static_cast<double>(g);
    const double rate = acceptance.ExpectedTokens(g) / seconds;
    if (rate > best_rate) {
      best = g;
      best_rate = rate;
    }
  }
  EXPECT_GT(best, 0);
  EXPECT_LT(best, 6);
  EXPECT_EQ(length.Choose(one, 1, 6), best);
}

TEST(DraftLengthTest, StandsBackBelowBreakEven) {
  const Acceptance acceptance = WithRate(0.15);
  const std::vector<const Acceptance*> one = {&acceptance};
  EXPECT_EQ(Trained(0.5, 0.001).Choose(one, 1, 6), 0);
  DraftLength fixed({LengthPolicy::kFixed, 6, 64});
  EXPECT_EQ(fixed.Choose(one, 1, 6), 6);
}

TEST(DraftLengthTest, TriesOtherLengthsNowAndThen) {
  DraftLength length = Trained(0.5, 0.001);
  const Acceptance acceptance = WithRate(0.15);
  const std::vector<const Acceptance*> one = {&acceptance};
  int64_t tried = 0;
  for (int64_t i = 0; i < 8 * DraftLength::kProbeEvery; ++i)
    tried += length.Choose(one, 1, 6) > 0 ? 1 : 0;
  EXPECT_GE(tried, 6);
  EXPECT_LE(tried, 8);
}

TEST(DraftLengthTest, GivesHopelessSequencesNone) {
  const DraftLength length = Trained(0.3, 0.001);
  EXPECT_EQ(length.Worthwhile(WithRate(0.05), 2, 2, 2), 0);
  EXPECT_EQ(length.Worthwhile(WithRate(0.95), 2, 2, 2), 2);
}

TEST(ByteModelTest, AgreesWithTheFormula) {
  // Llama-2-7B of the paper, g = 4 at 32K: 13.5 GB of f16 weights and 512 KiB of KV a token.
  ByteModel model;
  model.plain = {1000, 2};
  model.draft = {500, 1};
  model.verify = {1000, 1};
  // At 100 tokens: 1200, 600, 1100 bytes.
  EXPECT_DOUBLE_EQ(model.SpeedUp(4, 0.9, 100), (1.0 + 3.6) * 1200.0 / (4 * 600.0 + 1100.0));
  const double break_even = model.BreakEven(4, 100);
  EXPECT_DOUBLE_EQ(break_even, (2400.0 + 1100.0 - 1200.0) / 4800.0);
  EXPECT_NEAR(model.SpeedUp(4, break_even, 100), 1.0, 1e-12);
}

TEST(DraftLevelTest, GoesCheaperWhenNearlyAllIsAccepted) {
  DraftLevel level({0.95, 0.75, 2});
  EXPECT_EQ(level.level(), 1);
  level.Observe(DraftLevel::kWindow, DraftLevel::kWindow / 2);
  EXPECT_EQ(level.level(), 0);
  level.Observe(DraftLevel::kWindow, DraftLevel::kWindow * 9 / 10);  // between the two: stays
  EXPECT_EQ(level.level(), 0);
  level.Observe(DraftLevel::kWindow - 1, DraftLevel::kWindow - 1);  // not enough seen
  EXPECT_EQ(level.level(), 0);
  level.Observe(1, 1);
  EXPECT_EQ(level.level(), 1);
}

}  // namespace
}  // namespace tenon
