#include "engine/sample/stop_matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace tenon {
namespace {

StopMatcher Make(const std::vector<std::string>& stops) {
  auto matcher = StopMatcher::Create(stops);
  EXPECT_TRUE(matcher.ok()) << matcher.error().ToString();
  return std::move(matcher).value();
}

struct Whole {
  std::string text;
  std::optional<size_t> stop;
  bool operator==(const Whole&) const = default;
};

// The definition, by search: the stop whose end comes first; of these the longest, then the first
// in the list.
Whole BruteForce(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::optional<size_t> best;
    for (size_t i = 0; i < stops.size(); ++i) {
      if (text.substr(0, end).ends_with(stops[i]) &&
          (!best || stops[i].size() > stops[*best].size()))
        best = i;
    }
    if (best)
      return {text.substr(0, end - stops[*best].size()), best};
  }
  return {text, std::nullopt};
}

// The longest tail that could still become a stop.
size_t LongestTail(const std::string& text, const std::vector<std::string>& stops) {
  size_t longest = 0;
  for (const std::string& stop : stops) {
    for (size_t n = 1; n < stop.size() && n <= text.size(); ++n) {
      if (text.ends_with(stop.substr(0, n)))
        longest = std::max(longest, n);
    }
  }
  return longest;
}

TEST(StopMatcher, FindsAStopOverManyTokens) {
  StopMatcher matcher = Make({"O P Q"});
  std::string text;
  std::optional<size_t> stop;
  for (const std::string piece : {"L", " M", " N", " O", " P", " Q", " R"}) {
    const StopMatcher::Output output = matcher.Push(piece);
    text += output.text;
    stop = output.stop;
  }
  EXPECT_EQ(text, "L M N ");
  EXPECT_EQ(stop, 0U);
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcher, GivesTheHeldTailAtTheEnd) {
  StopMatcher matcher = Make({"###"});
  EXPECT_EQ(matcher.Push("a ##").text, "a ");
  EXPECT_EQ(matcher.Flush(), "##");
  EXPECT_EQ(matcher.Flush(), "");
  EXPECT_EQ(matcher.Push("#").text, "");  // the old tail doesn't count for a new stream
  EXPECT_EQ(matcher.Push("x").text, "#x");
}

TEST(StopMatcher, ReportsAgainAfterTheStop) {
  StopMatcher matcher = Make({"b", "stop"});
  EXPECT_EQ(matcher.Push("a stop").stop, 1U);
  const StopMatcher::Output again = matcher.Push("more b");
  EXPECT_EQ(again.text, "");
  EXPECT_EQ(again.stop, 1U);
}

TEST(StopMatcher, ChoosesTheFirstEndThenTheLongest) {
  struct Case {
    std::vector<std::string> stops;
    std::string text;
    Whole expected;
  };
  const std::vector<Case> cases = {
      {{"abcd", "bc"}, "xabcd", {"xa", 1}},
      {{"bc", "abc"}, "xabc", {"x", 1}},
      {{"aa", "aa"}, "baa", {"b", 0}},
      {{"aab"}, "aaab", {"a", 0}},
      {{"abab", "bb"}, "ababb", {"", 0}},
      {{"\n\n", "User:"}, "hi\nUser:", {"hi\n", 1}},
      {{}, "anything", {"anything", std::nullopt}},
  };
  for (const Case& test : cases) {
    EXPECT_EQ(BruteForce(test.text, test.stops), test.expected) << test.text;
    StopMatcher matcher = Make(test.stops);
    StopMatcher::Output output = matcher.Push(test.text);
    if (!output.stop)
      output.text += matcher.Flush();
    EXPECT_EQ((Whole{output.text, output.stop}), test.expected) << test.text;
  }
}

TEST(StopMatcher, RefusesEmptyAndTooMuch) {
  auto empty = StopMatcher::Create({"a", ""});
  ASSERT_FALSE(empty.ok());
  EXPECT_EQ(empty.error().where, "stop[1]");
  EXPECT_FALSE(StopMatcher::Create(std::vector<std::string>(1025, "a")).ok());
  EXPECT_FALSE(StopMatcher::Create({std::string(64 * 1024 + 1, 'a')}).ok());
  EXPECT_TRUE(StopMatcher::Create({std::string(64 * 1024, 'a')}).ok());
}

std::string RandomText(std::mt19937_64& random, size_t longest, uint64_t alphabet) {
  std::string text(random() % (longest + 1), ' ');
  for (char& byte : text)
    byte = static_cast<char>('a' + random() % alphabet);
  return text;
}

// Any stops, any text, any cuts: the pieces that come out are the text before the stop, each as
// early as it is certain.
TEST(StopMatcher, EqualsTheDefinitionForRandomCuts) {
  std::mt19937_64 random(12);
  int found = 0;
  for (int round = 0; round < 5000; ++round) {
    const uint64_t alphabet = 2 + random() % 3;
    std::vector<std::string> stops(random() % 5);
    for (std::string& stop : stops)
      stop = std::string("a").append(RandomText(random, 6, alphabet));
    const std::string text = RandomText(random, 40, alphabet);
    const Whole expected = BruteForce(text, stops);
    StopMatcher matcher = Make(stops);
    std::string out;
    std::optional<size_t> stop;
    for (size_t begin = 0; begin < text.size() && !stop;) {
      const size_t size = 1 + random() % 7;
      const StopMatcher::Output output = matcher.Push(std::string_view(text).substr(begin, size));
      out += output.text;
      stop = output.stop;
      begin = std::min(begin + size, text.size());
      if (!stop) {
        ASSERT_EQ(out.size() + LongestTail(text.substr(0, begin), stops), begin)
            << "held back too much or too little";
      }
    }
    out += matcher.Flush();
    ASSERT_EQ((Whole{out, stop}), expected) << "round " << round << " text " << text;
    found += stop ? 1 : 0;
  }
  EXPECT_GT(found, 1500);
  EXPECT_LT(found, 4900);
}

TEST(StopMatcher, IsLinearInAnAdversarialText) {
  // 64 KiB of one letter as stop, and a megabyte that almost matches it everywhere.
  StopMatcher matcher = Make({std::string(64 * 1024 - 1, 'a') + "b"});
  const std::string piece = std::string(4096, 'a');
  size_t out = 0;
  for (int i = 0; i < 256; ++i)
    out += matcher.Push(piece).text.size();
  EXPECT_EQ(out, size_t{1024 * 1024} - (64 * 1024 - 1));
}

}  // namespace
}  // namespace tenon
