#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <string>

#include "engine/sample/min_p.h"
#include "engine/sample/mirostat.h"
#include "engine/sample/top_k.h"
#include "engine/sample/top_p.h"
#include "engine/sample/typical_p.h"
#include "engine/sample/xtc.h"
#include "sample/distributions.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::UnorderedElementsAreArray;

// 0: 0.0625, 1: 0.5, 2: 0.125, 3: 0.25, 4: 0.0625. Entropy ln 2 * 1.875 = 1.2997.
const std::vector<double> kHalves = {0.0625, 0.5, 0.125, 0.25, 0.0625};

struct FilterCase {
  std::string name;
  std::function<void(Candidates&)> filter;
  std::vector<int32_t> kept;  // by hand, any order
};

std::vector<FilterCase> FilterCases() {
  const auto top_p = [](float p) {
    return [p](Candidates& c) {
      Softmax(c);
      TopP(c, p);
    };
  };
  const auto min_p = [](float p) { return [p](Candidates& c) { MinP(c, p); }; };
  const auto typical = [](float p) { return [p](Candidates& c) { TypicalP(c, p); }; };
  const auto xtc = [](float t) { return [t](Candidates& c) { ExcludeTopChoices(c, t); }; };
  return {
      {"top_p 0 keeps the best", top_p(0.0F), {1}},
      {"top_p below the best", top_p(0.4F), {1}},
      {"top_p 0.6", top_p(0.6F), {1, 3}},
      {"top_p 0.8", top_p(0.8F), {1, 3, 2}},
      {"top_p 0.9, the lower id of equals", top_p(0.9F), {1, 3, 2, 0}},
      {"top_p 0.99", top_p(0.99F), {0, 1, 2, 3, 4}},
      {"min_p 0", min_p(0.0F), {0, 1, 2, 3, 4}},
      {"min_p 0.2: at least 0.1", min_p(0.2F), {1, 2, 3}},
      {"min_p 0.4: at least 0.2", min_p(0.4F), {1, 3}},
      {"min_p 1", min_p(1.0F), {1}},
      // |-ln p - 1.2997|: 0.0866 for 0.25, 0.6065 for 0.5, 0.7798 for 0.125, 1.4729 for 0.0625.
      {"typical 0 keeps the most typical", typical(0.0F), {3}},
      {"typical 0.3", typical(0.3F), {3, 1}},
      {"typical 0.8", typical(0.8F), {3, 1, 2}},
      {"typical 0.9", typical(0.9F), {3, 1, 2, 0}},
      {"xtc 0.2 spares the least of the top", xtc(0.2F), {0, 2, 3, 4}},
      {"xtc 0.1", xtc(0.1F), {0, 2, 4}},
      {"xtc 0.3: only one is above", xtc(0.3F), {0, 1, 2, 3, 4}},
      {"xtc 0.6: none is above", xtc(0.6F), {0, 1, 2, 3, 4}},
      // mu = 2 tau bits; surprises 1, 2, 3, 4, 4 bits.
      {"mirostat mu 2.5", [](Candidates& c) { Mirostat(1.25F, 0.1F).Truncate(c); }, {1, 3}},
      {"mirostat mu 0.5", [](Candidates& c) { Mirostat(0.25F, 0.1F).Truncate(c); }, {1}},
  };
}

TEST(Filters, KeepWhatIsKeptByHand) {
  for (const FilterCase& test : FilterCases()) {
    Candidates list = CandidatesOf(LogitsOf(kHalves));
    test.filter(list);
    EXPECT_THAT(IdsOf(list), UnorderedElementsAreArray(test.kept)) << test.name;
  }
}

TEST(Filters, LeaveASingleCandidateAlone) {
  for (const FilterCase& test : FilterCases()) {
    Candidates list = {{9, -3.0F, 0.0F}};
    test.filter(list);
    EXPECT_THAT(IdsOf(list), ElementsAre(9)) << test.name;
  }
}

TEST(Filters, SurviveTheLargestDifferences) {
  const float huge = std::numeric_limits<float>::max();
  for (const FilterCase& test : FilterCases()) {
    Candidates list = {{0, -huge, 0.0F}, {1, huge, 0.0F}, {2, 0.0F, 0.0F}};
    test.filter(list);
    Softmax(list);
    ASSERT_FALSE(list.empty()) << test.name;
    for (const Candidate& candidate : list)
      EXPECT_FALSE(std::isnan(candidate.p)) << test.name;
  }
}

// The definition, by a whole sort in double. `scores` ascending is the order of acceptance.
std::vector<int32_t> FewestReaching(const std::vector<double>& p, const std::vector<double>& scores,
                                    double mass, bool& ambiguous) {
  std::vector<int32_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  const auto at = [](const std::vector<double>& v, int32_t i) { return v[static_cast<size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return at(scores, a) < at(scores, b); });
  double sum = 0.0;
  for (size_t i = 0; i < order.size(); ++i) {
    sum += at(p, order[i]);
    ambiguous = ambiguous || std::abs(sum - mass) < 1e-6;
    if (sum >= mass)
      return {order.begin(), order.begin() + static_cast<std::ptrdiff_t>(i) + 1};
  }
  return order;
}

TEST(Filters, TopPEqualsTheDefinitionOnRandomLogits) {
  std::mt19937_64 random(1);
  int compared = 0;
  for (int round = 0; round < 300; ++round) {
    const std::vector<float> logits = RandomLogits(random, 1 + random() % 700, 2.0F);
    const auto mass = static_cast<float>(random() % 1000) / 1000.0F;
    const std::vector<double> p = ReferenceSoftmax(logits);
    const std::vector<double> scores = [&] {
      std::vector<double> negated;
      for (const double value : p)
        negated.push_back(-value);
      return negated;
    }();
    bool ambiguous = false;
    const auto expected = FewestReaching(p, scores, static_cast<double>(mass), ambiguous);
    Candidates list = CandidatesOf(logits);
    Softmax(list);
    TopP(list, mass);
    if (ambiguous)
      continue;
    ASSERT_THAT(IdsOf(list), ElementsAreArray(expected)) << "round " << round;
    ++compared;
  }
  EXPECT_GT(compared, 250);
}

TEST(Filters, TypicalEqualsTheDefinitionOnRandomLogits) {
  std::mt19937_64 random(2);
  int compared = 0;
  for (int round = 0; round < 300; ++round) {
    const std::vector<float> logits = RandomLogits(random, 1 + random() % 300, 2.0F);
    const auto mass = static_cast<float>(random() % 1000) / 1000.0F;
    const std::vector<double> p = ReferenceSoftmax(logits);
    double entropy = 0.0;
    for (const double value : p)
      entropy -= value * std::log(value);
    std::vector<double> scores;
    for (const double value : p)
      scores.push_back(std::abs(-std::log(value) - entropy));
    bool ambiguous = false;
    const auto expected = FewestReaching(p, scores, static_cast<double>(mass), ambiguous);
    Candidates list = CandidatesOf(logits);
    TypicalP(list, mass);
    // Two candidates on either side of the entropy can swap by rounding: compare the sets.
    if (ambiguous)
      continue;
    std::vector<int32_t> kept = IdsOf(list);
    compared += testing::Value(kept, UnorderedElementsAreArray(expected)) ? 1 : 0;
  }
  EXPECT_GE(compared, 280);
}

TEST(Filters, TopPAndMinPCanBeSwapped) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 200; ++round) {
    const std::vector<float> logits = RandomLogits(random, 1 + random() % 300, 2.0F);
    const auto mass = static_cast<float>(random() % 1000) / 1000.0F;
    const auto least = static_cast<float>(random() % 1000) / 2000.0F;
    Candidates top_p_first = CandidatesOf(logits);
    Softmax(top_p_first);
    Candidates min_p_first = top_p_first;
    TopP(top_p_first, mass);
    MinP(top_p_first, least);
    MinP(min_p_first, least);
    TopP(min_p_first, mass);
    std::vector<int32_t> ids = IdsOf(min_p_first);
    ASSERT_THAT(ids, UnorderedElementsAreArray(IdsOf(top_p_first))) << "round " << round;
  }
}

TEST(TopK, EqualsAWholeSort) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 400; ++round) {
    std::vector<float> logits = RandomLogits(random, 1 + random() % 2000, 3.0F);
    for (float& logit : logits)
      logit = random() % 10 == 0 ? kBanned : std::round(logit * 4.0F);  // many equal ones
    const size_t k = 1 + random() % 64;
    Candidates sorted = CandidatesOf(logits);
    std::sort(sorted.begin(), sorted.end(), Better);
    sorted.resize(std::min(k, sorted.size()));
    Candidates list;
    SelectTopK(logits, k, list);
    ASSERT_THAT(IdsOf(list), ElementsAreArray(IdsOf(sorted))) << "round " << round << " k " << k;
  }
}

TEST(TopK, ZeroAndTooManyMeanAll) {
  const std::vector<float> logits = {1.0F, kBanned, 3.0F, 2.0F};
  Candidates list;
  SelectTopK(logits, 0, list);
  EXPECT_THAT(IdsOf(list), ElementsAre(0, 2, 3));
  SelectTopK(logits, 4, list);
  EXPECT_THAT(IdsOf(list), ElementsAre(2, 3, 0));
  SelectTopK(logits, 3, list);
  EXPECT_THAT(IdsOf(list), ElementsAre(2, 3, 0));
}

TEST(Mirostat, FollowsItsUpdateRule) {
  Mirostat mirostat(3.0F, 0.5F);
  EXPECT_FLOAT_EQ(mirostat.mu(), 6.0F);
  mirostat.Observe(0.5F);  // 1 bit: error -2, mu + 1
  EXPECT_FLOAT_EQ(mirostat.mu(), 7.0F);
  mirostat.Observe(0.00390625F);  // 8 bits: error 5, mu - 2.5
  EXPECT_FLOAT_EQ(mirostat.mu(), 4.5F);
}

TEST(Mirostat, GivesTheProbabilitiesAmongTheKept) {
  Candidates list = CandidatesOf(LogitsOf(kHalves));
  Mirostat(1.25F, 0.1F).Truncate(list);  // 0.5 and 0.25 stay
  ASSERT_EQ(list.size(), 2U);
  EXPECT_NEAR(list[0].p, 2.0 / 3.0, 1e-6);
  EXPECT_NEAR(list[1].p, 1.0 / 3.0, 1e-6);
}

TEST(Temperature, SharpensAndFlattens) {
  for (const float temperature : {0.25F, 1.0F, 3.0F}) {
    Candidates list = CandidatesOf(LogitsOf(kHalves));
    ApplyTemperature(list, temperature);
    Softmax(list);
    const auto expected = ReferenceSoftmax(LogitsOf(kHalves), static_cast<double>(temperature));
    for (size_t i = 0; i < list.size(); ++i)
      EXPECT_NEAR(list[i].p, expected[i], 1e-6) << temperature;
  }
}

TEST(Temperature, TheSmallestOneLeavesTheBest) {
  Candidates list = CandidatesOf(LogitsOf(kHalves));
  ApplyTemperature(list, std::numeric_limits<float>::denorm_min());
  Softmax(list);
  EXPECT_EQ(list[1].p, 1.0F);
  EXPECT_EQ(list[3].p, 0.0F);
}

TEST(Draw, TakesTheCandidateThatTheSumReaches) {
  Candidates list = {{0, 0, 0.0F}, {1, 0, 0.25F}, {2, 0, 0.0F}, {3, 0, 0.75F}, {4, 0, 0.0F}};
  EXPECT_EQ(Draw(list, 0.0), 1U);
  EXPECT_EQ(Draw(list, 0.249), 1U);
  EXPECT_EQ(Draw(list, 0.25), 3U);
  EXPECT_EQ(Draw(list, 1.0 - 0x1.0p-53), 3U);  // never 4, which is impossible
}

}  // namespace
}  // namespace tenon
