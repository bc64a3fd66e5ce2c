#include "model/tokenizer/pre_tokenizer.h"

#include <gmock/gmock.h>

#include "tokenizer_test_support.h"

namespace tenon::testing {
namespace {

PreTokenizer Make(std::string_view name) {
  auto family = FindSplitFamily(name);
  EXPECT_TRUE(family.ok()) << name;
  return PreTokenizer(std::move(family).value().steps);
}

std::vector<size_t> Lengths(const PreTokenizer& pre_tokenizer, std::string_view text) {
  std::vector<size_t> lengths;
  for (std::string_view piece : pre_tokenizer.Split(text))
    lengths.push_back(piece.size());
  return lengths;
}

// Pieces that the `tokenizers` package made (scripts/make_tokenizer_golden.py).
TEST(PreTokenizer, MatchesGoldenPieces) {
  std::map<std::string, PreTokenizer> made;
  for (const nlohmann::json& line : ReadGolden("pretokenizer_golden.jsonl")) {
    const std::string name = line["pre"];
    auto place = made.find(name);
    if (place == made.end())
      place = made.emplace(name, Make(name)).first;
    const std::string text = line["text"];
    EXPECT_EQ(Lengths(place->second, text), line["lengths"].get<std::vector<size_t>>())
        << name << ": " << text;
  }
  EXPECT_GE(made.size(), 17u);
}

TEST(PreTokenizer, PiecesOfAnyBytesAreTheBytes) {
  std::mt19937 random(7);
  EXPECT_GE(SplitFamilyNames().size(), 17U);
  for (std::string_view name : SplitFamilyNames()) {
    const PreTokenizer pre_tokenizer = Make(name);
    for (size_t size = 0; size < 60; ++size) {
      const std::string text = RandomBytes(random, size);
      std::string joined;
      for (std::string_view piece : pre_tokenizer.Split(text)) {
        EXPECT_FALSE(piece.empty());
        joined += piece;
      }
      EXPECT_EQ(joined, text) << name;
    }
  }
}

using Pieces = std::vector<std::string_view>;

TEST(PreTokenizer, SplitsByTheFamilysPattern) {
  EXPECT_EQ(Make("gpt-2").Split("I'm  up 1234!"), (Pieces{"I", "'m", " ", " up", " 1234", "!"}));
  EXPECT_EQ(Make("smollm").Split("a 12"), (Pieces{"a", " ", "1", "2"}));
  EXPECT_EQ(Make("llama-bpe").Split("I'M 12345\n\n x"),
            (Pieces{"I", "'M", " ", "123", "45", "\n\n", " x"}));
  EXPECT_EQ(Make("qwen2").Split("(a) 12"), (Pieces{"(a", ")", " ", "1", "2"}));
  EXPECT_EQ(Make("gpt-4o").Split("parseJSON it's"), (Pieces{"parse", "JSON", " it's"}));
  EXPECT_EQ(Make("tekken").Split("it's"), (Pieces{"it", "'s"}));
  EXPECT_EQ(Make("falcon").Split("a,b 12345"), (Pieces{"a", ",", "b", " ", "123", "45"}));
  EXPECT_EQ(Make("deepseek-llm").Split("ab 12  "), (Pieces{"ab", " ", "1", "2", "  "}));
}

// U+1C89 (Unicode 16) is a letter, U+11DE0 (Unicode 17) counts as a digit for Digits alone.
TEST(PreTokenizer, KnowsNewLetters) {
  EXPECT_EQ(Make("gpt-2").Split("a\u1C89b"), (Pieces{"a\u1C89b"}));
  EXPECT_EQ(Make("smollm").Split("a\U00011DE0\U00011DE0"),
            (Pieces{"a", "\U00011DE0", "\U00011DE0"}));
  EXPECT_EQ(Make("gpt-2").Split("1\U00011DE0"), (Pieces{"1", "\U00011DE0"}));
}

TEST(PreTokenizer, LongRunsStayLinear) {
  // A quadratic splitter would need minutes for each of these.
  const std::string blanks(200'000, ' ');
  for (std::string_view name : SplitFamilyNames()) {
    const PreTokenizer pre_tokenizer = Make(name);
    EXPECT_LE(pre_tokenizer.Split(blanks + "x").size(), blanks.size()) << name;
    const size_t pieces = pre_tokenizer.Split(std::string(200'000, 'A') + " ").size();
    EXPECT_TRUE(pieces >= 1 && pieces <= 3) << name << ": " << pieces;
  }
}

TEST(PreTokenizer, UnknownNameListsTheKnown) {
  auto family = FindSplitFamily("nonesuch");
  ASSERT_FALSE(family.ok());
  EXPECT_EQ(family.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(family.error().where, "tokenizer.ggml.pre");
  EXPECT_THAT(family.error().message, ::testing::HasSubstr("\"nonesuch\""));
  for (std::string_view name : SplitFamilyNames())
    EXPECT_THAT(family.error().message, ::testing::HasSubstr(std::string(name)));
}

TEST(PreTokenizer, MissingNameIsTheDefault) {
  ASSERT_TRUE(FindSplitFamily("").ok());
  EXPECT_EQ(Make("").Split("a12345"), Make("default").Split("a12345"));
}

}  // namespace
}  // namespace tenon::testing
