#include "engine/sample/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sample/allocation_count.h"
#include "sample/distributions.h"

namespace tenon {
namespace {

using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// Everything off: the model's distribution.
SamplingParams Plain() {
  SamplingParams params;
  params.temperature = 1.0F;
  params.top_k = 0;
  params.top_p = 1.0F;
  params.min_p = 0.0F;
  return params;
}

SamplingParams Greedy() {
  SamplingParams params = Plain();
  params.temperature = 0.0F;
  return params;
}

Sampler Make(const SamplingParams& params, size_t vocab, DryBreakers breakers = {}) {
  auto sampler = Sampler::Create(params, static_cast<int32_t>(vocab), std::move(breakers));
  EXPECT_TRUE(sampler.ok()) << sampler.error().ToString();
  return std::move(sampler).value();
}

int32_t SampleToken(Sampler& sampler, const std::vector<float>& logits) {
  auto sampled = sampler.Sample(logits);
  EXPECT_TRUE(sampled.ok()) << sampled.error().ToString();
  return sampled.ok() ? sampled->token : -1;
}

std::vector<int32_t> Generate(Sampler& sampler, const std::vector<float>& logits, int count) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) {
    tokens.push_back(SampleToken(sampler, logits));
    sampler.Accept(tokens.back());
  }
  return tokens;
}

std::vector<int> Histogram(const std::vector<int32_t>& tokens, size_t vocab) {
  std::vector<int> counts(vocab, 0);
  for (const int32_t token : tokens)
    ++counts[static_cast<size_t>(token)];
  return counts;
}

TEST(Sampler, GreedyTakesTheLowestIdOfTheBest) {
  Sampler sampler = Make(Greedy(), 5);
  EXPECT_EQ(SampleToken(sampler, {1.0F, 7.0F, 3.0F, 7.0F, 7.0F}), 1);
  EXPECT_EQ(SampleToken(sampler, {kBanned, kBanned, -1e38F, kBanned, kBanned}), 2);
}

TEST(Sampler, GreedyComesAfterBiasPenaltiesAndDry) {
  SamplingParams params = Greedy();
  params.logit_bias = {{0, kBanned}, {2, 1.0F}, {2, 1.5F}};  // both biases of 2 count
  Sampler biased = Make(params, 3);
  EXPECT_EQ(SampleToken(biased, {9.0F, 3.0F, 1.0F}), 2);

  params = Greedy();
  params.presence_penalty = 2.0F;
  Sampler penalised = Make(params, 3);
  ASSERT_TRUE(penalised.AcceptPrompt(std::vector<int32_t>{0}).ok());
  EXPECT_EQ(SampleToken(penalised, {4.0F, 3.0F, 1.0F}), 1);

  params = Greedy();
  params.dry_multiplier = 5.0F;
  Sampler dry = Make(params, 3);
  ASSERT_TRUE(dry.AcceptPrompt(std::vector<int32_t>{1, 2, 0, 1, 2}).ok());
  EXPECT_EQ(SampleToken(dry, {4.0F, 3.0F, 1.0F}), 1);
}

TEST(Sampler, RefusesBadLogitsWithTheToken) {
  for (const float bad : {kNan, -kNan, kInf}) {
    for (const SamplingParams& params : {Plain(), Greedy()}) {
      Sampler sampler = Make(params, 3);
      auto sampled = sampler.Sample(std::vector<float>{1.0F, 2.0F, bad});
      ASSERT_FALSE(sampled.ok());
      EXPECT_EQ(sampled.error().code, ErrorCode::kInternal);
      EXPECT_THAT(sampled.error().message, HasSubstr("token 2 is "));
    }
  }
  Sampler sampler = Make(Plain(), 3);
  EXPECT_EQ(sampler.Sample(std::vector<float>{1.0F}).error().code, ErrorCode::kInvalidArgument);
}

TEST(Sampler, SaysWhenEverythingIsBanned) {
  SamplingParams mirostat = Plain();
  mirostat.mirostat = 2;
  for (const SamplingParams& params : {Plain(), Greedy(), SamplingParams{}, mirostat}) {
    SamplingParams banning = params;
    banning.logit_bias = {{0, kBanned}};
    Sampler sampler = Make(banning, 2);
    auto sampled = sampler.Sample(std::vector<float>{1.0F, kBanned});
    ASSERT_FALSE(sampled.ok());
    EXPECT_THAT(sampled.error().message, HasSubstr("all 2 tokens are banned"));
  }
}

TEST(Sampler, RefusesBadParametersAndTokens) {
  SamplingParams params;
  params.top_p = kNan;
  EXPECT_EQ(Sampler::Create(params, 10).error().where, "top_p");
  EXPECT_FALSE(Sampler::Create({}, 0).ok());
  EXPECT_FALSE(Sampler::Create({}, 10, {{10}}).ok());
  EXPECT_FALSE(Sampler::Create({}, 10, {{}}).ok());
  Sampler sampler = Make(Plain(), 10);
  const Status status = sampler.AcceptPrompt(std::vector<int32_t>{1, -5});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().where, "prompt[1]");
}

TEST(Sampler, SameSeedSameTextAndOthersDiffer) {
  std::mt19937_64 random(8);
  const std::vector<float> logits = RandomLogits(random, 100, 1.0F);
  const auto text = [&](uint64_t seed) {
    SamplingParams params;
    params.seed = seed;
    Sampler sampler = Make(params, 100);
    return Generate(sampler, logits, 40);
  };
  EXPECT_EQ(text(1), text(1));
  EXPECT_EQ(text(~uint64_t{0}), text(~uint64_t{0}));
  EXPECT_NE(text(1), text(2));
  EXPECT_NE(text(0), text(uint64_t{1} << 32));
}

TEST(Sampler, TheDrawBelongsToThePosition) {
  const std::vector<float> logits = LogitsOf({0.25, 0.25, 0.25, 0.25});
  Sampler once = Make(Plain(), 4);
  Sampler twice = Make(Plain(), 4);
  for (int i = 0; i < 50; ++i) {
    const int32_t token = SampleToken(once, logits);
    ASSERT_EQ(SampleToken(twice, logits), token);
    ASSERT_EQ(SampleToken(twice, logits), token);
    once.Accept(token);
    twice.Accept(3);  // another text, the same position
  }
}

// Eight tokens: 7 degrees of freedom, 0.9999 quantile 29.88.
constexpr double kChiSquareBound = 29.88;
const std::vector<double> kEight = {0.3, 0.2, 0.15, 0.12, 0.1, 0.08, 0.04, 0.01};

TEST(Sampler, DrawsFromTheModelsDistribution) {
  for (const float temperature : {1.0F, 0.5F, 2.0F}) {
    SamplingParams params = Plain();
    params.temperature = temperature;
    params.seed = 42;
    Sampler sampler = Make(params, 8);
    const auto counts = Histogram(Generate(sampler, LogitsOf(kEight), 80000), 8);
    const auto expected = [&](double t) { return ReferenceSoftmax(LogitsOf(kEight), t); };
    const auto t = static_cast<double>(temperature);
    EXPECT_LT(ChiSquare(counts, expected(t)), kChiSquareBound) << temperature;
    // The bound is tight enough to notice a temperature that is off by a tenth.
    EXPECT_GT(ChiSquare(counts, expected(t * 1.1)), kChiSquareBound) << temperature;
  }
}

TEST(Sampler, DrawsFromTheTruncatedDistributionRenormalised) {
  SamplingParams params = Plain();
  params.top_k = 4;     // 0.3 0.2 0.15 0.12, sum 0.77
  params.top_p = 0.8F;  // 0.65 / 0.77 = 0.844 with three of them
  params.seed = 3;
  Sampler sampler = Make(params, 8);
  const auto counts = Histogram(Generate(sampler, LogitsOf(kEight), 20000), 8);
  const std::vector<double> expected = {0.3 / 0.65, 0.2 / 0.65, 0.15 / 0.65, 0, 0, 0, 0, 0};
  EXPECT_LT(ChiSquare(counts, expected), kChiSquareBound);
}

TEST(Sampler, TruncatesBeforeTemperature) {
  // min_p 0.5 at temperature 1 keeps 0.3, 0.2 and 0.15. At temperature 4 first, it would keep more.
  SamplingParams params = Plain();
  params.min_p = 0.45F;
  params.temperature = 4.0F;
  Sampler sampler = Make(params, 8);
  const auto counts = Histogram(Generate(sampler, LogitsOf(kEight), 3000), 8);
  EXPECT_GT(counts[2], 0);
  EXPECT_EQ(counts[3] + counts[4] + counts[5] + counts[6] + counts[7], 0);
}

TEST(Sampler, XtcActsWithItsProbability) {
  SamplingParams params = Plain();
  params.xtc_probability = 0.5F;
  params.xtc_threshold = 0.18F;  // 0.3 goes, 0.2 is spared
  params.seed = 11;
  Sampler sampler = Make(params, 8);
  const auto counts = Histogram(Generate(sampler, LogitsOf(kEight), 20000), 8);
  std::vector<double> expected;
  for (size_t i = 0; i < 8; ++i)
    expected.push_back(0.5 * kEight[i] + (i == 0 ? 0.0 : 0.5 * kEight[i] / 0.7));
  EXPECT_LT(ChiSquare(counts, expected), kChiSquareBound);
}

// Replays the paper's rule in double beside the sampler: every token lies within the bound at that
// moment, and the mean surprise among the kept candidates comes out as tau.
TEST(Sampler, MirostatHoldsTheSurprise) {
  std::mt19937_64 random(9);
  const std::vector<float> logits = RandomLogits(random, 2000, 2.5F);
  const std::vector<double> p = ReferenceSoftmax(logits);
  for (const double tau : {2.0, 4.0}) {
    SamplingParams params = Plain();
    params.mirostat = 2;
    params.mirostat_tau = static_cast<float>(tau);
    Sampler sampler = Make(params, 2000);
    double mu = 2.0 * tau;
    double mean = 0.0;
    for (const int32_t token : Generate(sampler, logits, 2000)) {
      double kept = 0.0;
      for (const double value : p)
        kept += -std::log2(value) <= mu ? value : 0.0;
      const double own = p[static_cast<size_t>(token)];
      ASSERT_LE(-std::log2(own), mu + 1e-3);
      const double surprise = -std::log2(own / kept);
      mu -= 0.1 * (surprise - tau);
      mean += surprise / 2000.0;
    }
    EXPECT_NEAR(mean, tau, 0.05);
  }
}

TEST(Sampler, LogprobsAreThoseOfTheModel) {
  SamplingParams params = Greedy();
  params.logprobs = 3;
  params.logit_bias = {{1, kBanned}};  // must not show
  params.repetition_penalty = 3.0F;
  Sampler sampler = Make(params, 4);
  ASSERT_TRUE(sampler.AcceptPrompt(std::vector<int32_t>{2}).ok());
  auto sampled = sampler.Sample(LogitsOf({0.125, 0.5, 0.25, 0.125}));
  ASSERT_TRUE(sampled.ok());
  EXPECT_EQ(sampled->token, 0);
  EXPECT_NEAR(sampled->logprob, std::log(0.125), 1e-6);
  ASSERT_EQ(sampled->top.size(), 3U);
  EXPECT_EQ(sampled->top[0].token, 1);
  EXPECT_NEAR(sampled->top[0].logprob, std::log(0.5), 1e-6);
  EXPECT_EQ(sampled->top[1].token, 2);
  EXPECT_NEAR(sampled->top[1].logprob, std::log(0.25), 1e-6);
  EXPECT_EQ(sampled->top[2].token, 0);
}

TEST(Sampler, AllocatesNothingOnceWarm) {
  std::mt19937_64 random(10);
  const std::vector<float> logits = RandomLogits(random, 50000, 3.0F);
  SamplingParams all = Plain();
  all.top_k = 0;
  all.top_p = 0.9F;
  all.typical_p = 0.95F;
  SamplingParams mirostat = Plain();
  mirostat.mirostat = 2;
  for (const SamplingParams& params : {SamplingParams{}, Greedy(), all, mirostat}) {
    Sampler sampler = Make(params, logits.size());
    Generate(sampler, logits, 2);
    const size_t before = AllocationCount();
    for (int i = 0; i < 5; ++i) {
      auto sampled = sampler.Sample(logits);
      sampler.Accept(sampled->token);
    }
    EXPECT_EQ(AllocationCount(), before);
  }
}

}  // namespace
}  // namespace tenon
