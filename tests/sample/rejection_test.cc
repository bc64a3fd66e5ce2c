// Rejection sampling gives the target's distribution, whatever the draft's is: chi-square tests of
// the pure function and of the sampler with its filters on both sides.
#include "engine/sample/rejection.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "engine/sample/philox.h"
#include "engine/sample/sampler.h"

namespace tenon {
namespace {

Candidates WithP(const std::vector<float>& p) {
  Candidates list;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] > 0.0F)
      list.push_back({static_cast<int32_t>(i), 0.0F, p[i]});
  }
  return list;
}

// Pearson's statistic of counts against expected probabilities; cells that can't occur must not.
double ChiSquare(const std::vector<int64_t>& counts, const std::vector<double>& p, int& freedom) {
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  double sum = 0.0;
  freedom = -1;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (p[i] <= 0.0) {
      EXPECT_EQ(counts[i], 0) << "token " << i << " can't occur";
      continue;
    }
    const double expected = total * p[i];
    sum += (static_cast<double>(counts[i]) - expected) *
           (static_cast<double>(counts[i]) - expected) / expected;
    ++freedom;
  }
  return sum;
}

// The 99.99% quantile of chi-square by the approximation of Wilson and Hilferty.
double Bound(int freedom) {
  const double k = freedom;
  const double t = 1.0 - 2.0 / (9.0 * k) + 3.719 * std::sqrt(2.0 / (9.0 * k));
  return k * t * t * t;
}

TEST(RejectionTest, AcceptsWhatTheTargetLikesAtLeastAsMuch) {
  const Candidates p = WithP({0.5F, 0.5F});
  const Candidates q = WithP({0.4F, 0.6F});
  EXPECT_EQ(AcceptOrReplace(p, q, 0, {0.999, 0.0}).id, 0);
  // p / q = 5 / 6 for token 1.
  EXPECT_EQ(AcceptOrReplace(p, q, 1, {0.83, 0.0}).id, 1);
  EXPECT_EQ(AcceptOrReplace(p, q, 1, {0.84, 0.0}).id, 0);
}

TEST(RejectionTest, NeverAcceptsWhatTheTargetHasNot) {
  EXPECT_EQ(AcceptOrReplace(WithP({0.0F, 1.0F}), WithP({1.0F}), 0, {0.0, 0.5}).id, 1);
}

TEST(RejectionTest, GivesTheTargetsDistribution) {
  const std::vector<float> p = {0.35F, 0.05F, 0.25F, 0.0F, 0.2F, 0.15F};
  const std::vector<float> q = {0.1F, 0.3F, 0.25F, 0.25F, 0.0F, 0.1F};
  const Candidates target = WithP(p);
  const Candidates draft = WithP(q);
  std::vector<int64_t> counts(p.size());
  for (uint64_t i = 0; i < 60'000; ++i) {
    const int32_t guess = draft[Draw(draft, UniformAt(7, i, DrawPurpose::kGuess))].id;
    const RejectionDraws draws{UniformAt(7, i, DrawPurpose::kAccept),
                               UniformAt(7, i, DrawPurpose::kResidual)};
    ++counts[static_cast<size_t>(AcceptOrReplace(target, draft, guess, draws).id)];
  }
  int freedom = 0;
  const double statistic = ChiSquare(counts, {p.begin(), p.end()}, freedom);
  EXPECT_LT(statistic, Bound(freedom));
}

struct SamplerCase {
  const char* name;
  float temperature;
  int32_t top_k;
  float top_p;
  float min_p;
};

class SampledRejectionTest : public ::testing::TestWithParam<SamplerCase> {};

// Two different models' logits, a draft's and the target's, through the same filters. Each seed is
// one independent trial of the first token.
TEST_P(SampledRejectionTest, EqualsPlainSampling) {
  constexpr int32_t kVocab = 12;
  SamplingParams params;
  params.temperature = GetParam().temperature;
  params.top_k = GetParam().top_k;
  params.top_p = GetParam().top_p;
  params.min_p = GetParam().min_p;
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0.0F, 1.5F);
  std::vector<float> target(kVocab);
  std::vector<float> draft(kVocab);
  for (size_t i = 0; i < kVocab; ++i) {
    target[i] = normal(random);
    draft[i] = target[i] + 0.7F * normal(random);
  }
  std::vector<int64_t> counts(kVocab);
  std::vector<double> expected(kVocab, 0.0);
  int64_t accepted = 0;
  constexpr int64_t kTrials = 40'000;
  for (int64_t seed = 0; seed < kTrials; ++seed) {
    params.seed = static_cast<uint64_t>(seed);
    auto own = Sampler::Create(params, kVocab);
    auto guesser = Sampler::Create(params, kVocab);
    ASSERT_TRUE(own.ok() && guesser.ok());
    const auto guess = guesser->Guess(draft, DrawPurpose::kGuess);
    ASSERT_TRUE(guess.ok());
    const auto sampled = own->SampleAgainst(target, *guess, guesser->distribution());
    ASSERT_TRUE(sampled.ok());
    ++counts[static_cast<size_t>(sampled->token)];
    accepted += sampled->token == *guess ? 1 : 0;
    if (seed > 0)
      continue;
    auto plain = Sampler::Create(params, kVocab);
    ASSERT_TRUE(plain->Guess(target, DrawPurpose::kToken).ok());
    for (const Candidate& candidate : plain->distribution())
      expected[static_cast<size_t>(candidate.id)] = static_cast<double>(candidate.p);
  }
  int freedom = 0;
  const double statistic = ChiSquare(counts, expected, freedom);
  EXPECT_LT(statistic, Bound(std::max(freedom, 1)));
  EXPECT_GT(accepted, kTrials / 4);  // rejection is not just sampling anew
  EXPECT_LT(accepted, kTrials);
}

INSTANTIATE_TEST_SUITE_P(Filters, SampledRejectionTest,
                         ::testing::Values(SamplerCase{"plain", 1.0F, 0, 1.0F, 0.0F},
                                           SamplerCase{"cold", 0.6F, 0, 1.0F, 0.0F},
                                           SamplerCase{"top_k", 1.0F, 4, 1.0F, 0.0F},
                                           SamplerCase{"top_p", 1.2F, 0, 0.8F, 0.0F},
                                           SamplerCase{"all", 0.8F, 8, 0.95F, 0.05F}),
                         [](const auto& suite) { return std::string(suite.param.name); });

TEST(SamplerRestartTest, RepeatsTheSameAnswer) {
  SamplingParams params;
  params.repetition_penalty = 1.3F;
  params.seed = 5;
  std::vector<float> logits(32);
  for (size_t i = 0; i < logits.size(); ++i)
    logits[i] = static_cast<float>(i % 7) * 0.4F;
  auto sampler = Sampler::Create(params, 32);
  ASSERT_TRUE(sampler.ok());
  const std::vector<int32_t> prompt = {1, 2, 3};
  ASSERT_TRUE(sampler->AcceptPrompt(prompt).ok());
  std::vector<int32_t> answer;
  std::vector<uint64_t> digests = {sampler->digest()};
  for (int i = 0; i < 12; ++i) {
    answer.push_back(sampler->Sample(logits)->token);
    sampler->Accept(answer.back());
    digests.push_back(sampler->digest());
  }
  sampler->Restart(prompt, std::span(answer).first(6));
  EXPECT_EQ(sampler->digest(), digests[6]);
  for (size_t i = 6; i < 12; ++i) {
    EXPECT_EQ(sampler->Sample(logits)->token, answer[i]);
    sampler->Accept(answer[i]);
  }
  EXPECT_EQ(sampler->digest(), digests[12]);
}

TEST(SamplerDigestTest, SeesOrderAndNumber) {
  const auto of = [](std::initializer_list<int32_t> tokens) {
    uint64_t digest = 0;
    for (const int32_t token : tokens)
      digest = Sampler::ExtendDigest(digest, token);
    return digest;
  };
  EXPECT_NE(of({1, 2}), of({2, 1}));
  EXPECT_NE(of({1}), of({1, 1}));
  EXPECT_NE(of({}), of({0}));
  EXPECT_NE(of({0}), of({0, 0}));
}

}  // namespace
}  // namespace tenon
