#include "engine/sample/penalties.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sample/distributions.h"

namespace tenon {
namespace {

SamplingParams Neutral() {
  SamplingParams params;
  params.penalty_last_n = -1;
  return params;
}

// Feeds `tokens` and returns the logits afterwards.
std::vector<float> After(const SamplingParams& params, const std::vector<int32_t>& tokens,
                         std::vector<float> logits) {
  Penalties penalties(params, static_cast<int32_t>(logits.size()));
  for (size_t n = 1; n <= tokens.size(); ++n)
    penalties.Accept(std::span(tokens).first(n));
  penalties.Apply(logits);
  return logits;
}

TEST(Penalties, RepetitionDividesPositiveAndMultipliesNegative) {
  SamplingParams params = Neutral();
  params.repetition_penalty = 2.0F;
  EXPECT_EQ(After(params, {0, 1, 1, 2}, {3.0F, -3.0F, 0.0F, 5.0F}),
            (std::vector<float>{1.5F, -6.0F, 0.0F, 5.0F}));
}

TEST(Penalties, PresenceOnceAndFrequencyByCount) {
  SamplingParams params = Neutral();
  params.presence_penalty = 0.5F;
  params.frequency_penalty = 0.25F;
  EXPECT_EQ(After(params, {1, 1, 1, 2}, {1.0F, 1.0F, 1.0F}),
            (std::vector<float>{1.0F, 1.0F - 0.5F - 0.75F, 1.0F - 0.5F - 0.25F}));
}

TEST(Penalties, RepetitionComesFirst) {
  SamplingParams params = Neutral();
  params.repetition_penalty = 2.0F;
  params.presence_penalty = 1.0F;
  EXPECT_EQ(After(params, {0}, {4.0F}), (std::vector<float>{1.0F}));
}

TEST(Penalties, OffMeansUnchanged) {
  EXPECT_FALSE(Penalties(Neutral(), 4).enabled());
  SamplingParams params = Neutral();
  params.presence_penalty = 1.0F;
  params.penalty_last_n = 0;
  EXPECT_FALSE(Penalties(params, 4).enabled());
  EXPECT_EQ(After(params, {0, 0}, {4.0F}), (std::vector<float>{4.0F}));
}

TEST(Penalties, BannedAndLargestLogitsStayUsable) {
  SamplingParams params = Neutral();
  params.repetition_penalty = 0.01F;
  params.frequency_penalty = -100.0F;
  const float largest = std::numeric_limits<float>::max();
  const std::vector<float> logits = After(params, {0, 1, 1}, {largest, kBanned});
  EXPECT_EQ(logits, (std::vector<float>{largest, kBanned}));
}

// Against a recount of the window at every step, with Apply at some steps only.
TEST(Penalties, WindowEqualsARecount) {
  std::mt19937_64 random(5);
  for (const int32_t last_n : {1, 3, 16, -1}) {
    SamplingParams params = Neutral();
    params.penalty_last_n = last_n;
    params.presence_penalty = 0.5F;
    params.frequency_penalty = 0.125F;
    Penalties penalties(params, 8);
    std::vector<int32_t> history;
    for (int step = 0; step < 300; ++step) {
      history.push_back(static_cast<int32_t>(random() % 8));
      penalties.Accept(history);
      if (random() % 3 == 0)
        continue;
      std::vector<float> logits(8, 10.0F);
      penalties.Apply(logits);
      const size_t window =
          last_n < 0 ? history.size() : std::min(history.size(), static_cast<size_t>(last_n));
      for (int32_t token = 0; token < 8; ++token) {
        const auto count =
            std::count(history.end() - static_cast<std::ptrdiff_t>(window), history.end(), token);
        const float expected =
            count == 0 ? 10.0F : 10.0F - 0.5F - 0.125F * static_cast<float>(count);
        ASSERT_EQ(logits[static_cast<size_t>(token)], expected) << "last_n " << last_n;
      }
    }
  }
}

}  // namespace
}  // namespace tenon
