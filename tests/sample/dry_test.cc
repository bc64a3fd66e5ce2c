#include "engine/sample/dry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "engine/sample/dry_breakers.h"
#include "sample/distributions.h"

namespace tenon {
namespace {

using testing::UnorderedElementsAreArray;

constexpr int32_t kVocab = 6;

SamplingParams DryParams() {
  SamplingParams params;
  params.dry_multiplier = 0.5F;
  params.dry_base = 2.0F;
  params.dry_allowed_length = 2;
  return params;
}

std::vector<float> PenaltiesAfter(const SamplingParams& params, const std::vector<int32_t>& history,
                                  const DryBreakers& breakers) {
  Dry dry(params, kVocab, breakers);
  for (size_t n = 1; n <= history.size(); ++n)
    dry.Accept(std::span(history).first(n));
  std::vector<float> logits(kVocab, 0.0F);
  dry.Apply(history, logits);
  return logits;
}

// The definition, position by position: how far back the tokens before `i` equal the last ones of
// the window, stopping at a breaker.
int MatchBefore(const std::vector<int32_t>& window, size_t i, size_t limit) {
  size_t length = 0;
  while (length < limit && length < i &&
         window[i - 1 - length] == window[window.size() - 1 - length])
    ++length;
  return static_cast<int>(length);
}

// Tokens after the last end of any breaker.
size_t TokensAfterBreaker(const std::vector<int32_t>& history, const DryBreakers& breakers) {
  for (size_t end = history.size(); end > 0; --end) {
    for (const auto& breaker : breakers) {
      if (breaker.size() <= end &&
          std::equal(breaker.begin(), breaker.end(),
                     history.begin() + static_cast<std::ptrdiff_t>(end - breaker.size())))
        return history.size() - end;
    }
  }
  return history.size();
}

std::vector<float> BruteForce(const SamplingParams& params, const std::vector<int32_t>& history,
                              const DryBreakers& breakers) {
  std::vector<int32_t> window = history;
  if (params.dry_penalty_last_n >= 0)
    window.erase(window.begin(), window.end() - std::min<std::ptrdiff_t>(
                                                    params.dry_penalty_last_n,
                                                    static_cast<std::ptrdiff_t>(window.size())));
  const size_t limit = TokensAfterBreaker(history, breakers);
  std::map<int32_t, int> longest;
  for (size_t i = 1; i < window.size(); ++i)
    longest[window[i]] = std::max(longest[window[i]], MatchBefore(window, i, limit));
  std::vector<float> logits(kVocab, 0.0F);
  for (const auto& [token, length] : longest) {
    const bool breaker = std::count(breakers.begin(), breakers.end(), std::vector{token}) > 0;
    if (!breaker && length >= params.dry_allowed_length)
      logits[static_cast<size_t>(token)] -=
          params.dry_multiplier *
          std::pow(params.dry_base, static_cast<float>(length - params.dry_allowed_length));
  }
  return logits;
}

TEST(Dry, PenalisesWhatWouldExtendARepetition) {
  // "1 2 3 ... 1 2": 3 would make a repetition of length 2 longer: 0.5 * 2^0.
  EXPECT_EQ(PenaltiesAfter(DryParams(), {1, 2, 3, 0, 1, 2}, {}),
            (std::vector<float>{0, 0, 0, -0.5F, 0, 0}));
  // "0 1 2 3 | 0 1 2": length 3, 0.5 * 2^1.
  EXPECT_EQ(PenaltiesAfter(DryParams(), {0, 1, 2, 3, 0, 1, 2}, {}),
            (std::vector<float>{0, 0, 0, -1.0F, 0, 0}));
  // One token alone is allowed.
  EXPECT_EQ(PenaltiesAfter(DryParams(), {1, 3, 0, 1}, {}), std::vector<float>(kVocab, 0.0F));
}

TEST(Dry, StopsAtBreakers) {
  // 0 breaks: only "1 2" after it counts, length 2 instead of 4.
  EXPECT_EQ(PenaltiesAfter(DryParams(), {5, 0, 1, 2, 3, 5, 0, 1, 2}, {{0}}),
            (std::vector<float>{0, 0, 0, -0.5F, 0, 0}));
  // The token that follows is itself a breaker: never penalised.
  EXPECT_EQ(PenaltiesAfter(DryParams(), {1, 2, 3, 0, 1, 2}, {{3}}),
            std::vector<float>(kVocab, 0.0F));
  // "0 1" breaks as a sequence, 0 or 1 alone does not.
  EXPECT_EQ(PenaltiesAfter(DryParams(), {0, 1, 2, 3, 4, 0, 1, 2, 3}, {{0, 1}}),
            (std::vector<float>{0, 0, 0, 0, -0.5F, 0}));
}

TEST(Dry, EqualsTheDefinitionOnRandomHistories) {
  std::mt19937_64 random(6);
  const std::vector<DryBreakers> breaker_sets = {{}, {{5}}, {{5}, {0, 1}}, {{2, 2}, {1, 2, 0}}};
  int penalised = 0;
  for (int round = 0; round < 3000; ++round) {
    SamplingParams params = DryParams();
    params.dry_allowed_length = static_cast<int32_t>(1 + random() % 4);
    params.dry_penalty_last_n = random() % 2 == 0 ? -1 : static_cast<int32_t>(random() % 30);
    std::vector<int32_t> history(random() % 40);
    const uint64_t alphabet = 2 + random() % 5;
    for (int32_t& token : history)
      token = static_cast<int32_t>(random() % alphabet);
    const DryBreakers& breakers = breaker_sets[random() % breaker_sets.size()];
    const auto expected = BruteForce(params, history, breakers);
    ASSERT_EQ(PenaltiesAfter(params, history, breakers), expected) << "round " << round;
    penalised += expected != std::vector<float>(kVocab, 0.0F) ? 1 : 0;
  }
  EXPECT_GT(penalised, 1000);
}

TEST(Dry, ALongRepetitionStaysFinite) {
  const std::vector<float> logits = PenaltiesAfter(DryParams(), std::vector<int32_t>(2000, 1), {});
  EXPECT_LT(logits[1], -1e29F);
  EXPECT_TRUE(std::isfinite(logits[1]));
}

TEST(DryBreakers, AreFoundWholeAndInParts) {
  const std::vector<std::string> vocabulary = {"a", "\n", "x\n\n", "##", "# ", " #", "b"};
  TokenTexts texts;
  texts.vocab_size = static_cast<int32_t>(vocabulary.size());
  texts.bytes = [&](int32_t id) { return vocabulary[static_cast<size_t>(id)]; };
  texts.tokenize = [](std::string_view text) {
    return text == "# b" ? std::vector<int32_t>{4, 6} : std::vector<int32_t>{100};
  };
  EXPECT_THAT(FindDryBreakers({"\n"}, texts), UnorderedElementsAreArray(DryBreakers{{1}, {2}}));
  // "##" ends with "#" (rest "# b", as does " #") and with "##" (rest " b").
  EXPECT_THAT(FindDryBreakers({"## b"}, texts),
              UnorderedElementsAreArray(DryBreakers{{3, 4, 6}, {3, 100}, {5, 4, 6}}));
}

}  // namespace
}  // namespace tenon
