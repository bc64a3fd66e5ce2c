#include <gmock/gmock.h>

#include <limits>

#include "tokenizer_test_support.h"

namespace tenon::testing {
namespace {

using ::testing::HasSubstr;

// <unk> 0, <s> 1, the bytes <0x00> to <0xFF> 2..257, then pieces.
constexpr int32_t kFirstPiece = 258;

TokenizerSpec SmallVocabulary(const std::vector<std::pair<std::string, float>>& pieces) {
  TokenizerSpec spec;
  spec.model = "llama";
  spec.unknown_id = 0;
  spec.bos_id = 1;
  spec.add_space_prefix = false;
  AddToken(spec, "<unk>", TokenType::kUnknown);
  AddToken(spec, "<s>", TokenType::kControl);
  const std::string digits = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256; ++byte)
    AddToken(spec, std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">",
             TokenType::kByte);
  for (const auto& [text, score] : pieces)
    AddToken(spec, text, TokenType::kNormal, score);
  return spec;
}

Ids Pieces(const Ids& offsets) {
  Ids ids;
  for (int32_t offset : offsets)
    ids.push_back(kFirstPiece + offset);
  return ids;
}

TEST(SentencePiece, MergesByScoreThenFromTheLeft) {
  auto tokenizer = MakeTokenizer(
      SmallVocabulary({{"a", 0}, {"b", 0}, {"c", 0}, {"ab", -2}, {"bc", -1}, {"aa", -3}}));
  EXPECT_EQ(EncodePlain(*tokenizer, "abc"), Pieces({0, 4}));  // "bc" scores higher
  EXPECT_EQ(EncodePlain(*tokenizer, "aaa"), Pieces({5, 0}));  // the left pair of equals
  EXPECT_EQ(EncodePlain(*tokenizer, "abab"), Pieces({3, 3}));
}

// Positive and negative scores, and zeros of both signs, order as numbers.
TEST(SentencePiece, OrdersScoresAsNumbers) {
  const std::vector<float> rising = {
      -std::numeric_limits<float>::infinity(), -3e38f, -1.5f, -0.0f, 1e-40f, 2.5f, 3e38f};
  for (size_t low = 0; low < rising.size(); ++low) {
    for (size_t high = low + 1; high < rising.size(); ++high) {
      auto tokenizer = MakeTokenizer(SmallVocabulary(
          {{"a", 0}, {"b", 0}, {"c", 0}, {"ab", rising[low]}, {"bc", rising[high]}}));
      EXPECT_EQ(EncodePlain(*tokenizer, "abc"), Pieces({0, 4})) << low << " " << high;
    }
  }
  auto equal =
      MakeTokenizer(SmallVocabulary({{"a", 0}, {"b", 0}, {"c", 0}, {"ab", -0.0f}, {"bc", 0.0f}}));
  EXPECT_EQ(EncodePlain(*equal, "abc"), Pieces({3, 2}));
}

TEST(SentencePiece, MergesThroughCharactersThatAreNoPieces) {
  auto tokenizer = MakeTokenizer(SmallVocabulary({{"ab", -1}}));
  EXPECT_EQ(EncodePlain(*tokenizer, "abb"), (Ids{kFirstPiece, 2 + 'b'}));
}

TEST(SentencePiece, FallsBackToBytesAndThenToUnknown) {
  TokenizerSpec spec = SmallVocabulary({{"a", 0}});
  EXPECT_EQ(EncodePlain(*MakeTokenizer(spec), "a\u20AC\xFF"),
            (Ids{kFirstPiece, 2 + 0xE2, 2 + 0x82, 2 + 0xAC, 2 + 0xFF}));
  spec.tokens[2 + 0x82] = "gone";
  spec.types[2 + 0x82] = TokenType::kUnused;
  EXPECT_EQ(EncodePlain(*MakeTokenizer(spec), "a\u20AC"), (Ids{kFirstPiece, 0}));
}

TEST(SentencePiece, SpacesAreWrittenAndRead) {
  auto tokenizer = MakeTokenizer(SmallVocabulary({{"\u2581", 0}, {"a", 0}, {"\u2581a", 1}}));
  EXPECT_EQ(EncodePlain(*tokenizer, "a a  a"), Pieces({1, 2, 0, 2}));
  EXPECT_EQ(tokenizer->Decode(Pieces({1, 2, 0, 2}), SpecialText::kPlain), "a a  a");
}

// Merges that cross from one word into the next are kept where a piece has a space inside.
TEST(SentencePiece, PiecesMayCrossWords) {
  auto tokenizer = MakeTokenizer(
      SmallVocabulary({{"\u2581", 0}, {"a", 0}, {"b", 0}, {"a\u2581", 2}, {"\u2581b", 1}}));
  EXPECT_EQ(EncodePlain(*tokenizer, "a b b"), Pieces({3, 2, 4}));
}

TEST(SentencePiece, AddsASpaceAtTheStartAndAfterSpecialTokens) {
  TokenizerSpec spec = SmallVocabulary({{"\u2581", 0}, {"a", 0}, {"\u2581a", 1}});
  spec.add_space_prefix = true;
  auto tokenizer = MakeTokenizer(spec);
  EXPECT_EQ(EncodePlain(*tokenizer, "a"), Pieces({2}));
  EXPECT_EQ(EncodePlain(*tokenizer, ""), Ids{});
  const Ids ids = tokenizer->Encode("a<s>a", SpecialText::kParse, AddSpecial::kNone);
  EXPECT_EQ(ids, (Ids{kFirstPiece + 2, 1, kFirstPiece + 2}));
  EXPECT_EQ(tokenizer->Decode(ids, SpecialText::kParse), "a<s>a");
  EXPECT_EQ(tokenizer->Decode(EncodePlain(*tokenizer, "  a"), SpecialText::kPlain), "  a");
  EXPECT_EQ(tokenizer->TokenBytes(kFirstPiece + 2, SpecialText::kPlain), " a");
}

TEST(SentencePiece, UserDefinedTokensComeFirst) {
  TokenizerSpec spec = SmallVocabulary({{"\u2581", 0}, {"a", 0}, {"\n", 0}, {"\u2581a", 5}});
  const int32_t breaks = AddToken(spec, "\n\n", TokenType::kUserDefined);
  const int32_t spaces = AddToken(spec, "  ", TokenType::kUserDefined);
  auto tokenizer = MakeTokenizer(spec);
  EXPECT_EQ(
      EncodePlain(*tokenizer, "a\n\n\na   a"),
      (Ids{kFirstPiece + 1, breaks, kFirstPiece + 2, kFirstPiece + 1, spaces, kFirstPiece + 3}));
  EXPECT_EQ(tokenizer->Decode({spaces, breaks}, SpecialText::kPlain), "  \n\n");
}

// The pieces "<" "s" ">" and what merges could make of them lead to the text of a control token.
TEST(SentencePiece, PlainTextNeverBecomesAControlToken) {
  auto tokenizer =
      MakeTokenizer(SmallVocabulary({{"<", 0}, {"s", 0}, {">", 0}, {"<s", 1}, {"0", 0}}));
  EXPECT_EQ(EncodePlain(*tokenizer, "<s>"), Pieces({3, 2}));
  EXPECT_EQ(tokenizer->Encode("<s>", SpecialText::kParse, AddSpecial::kNone), (Ids{1}));
}

TEST(SentencePiece, RefusesBadScores) {
  TokenizerSpec spec = SmallVocabulary({{"a", 0}});
  spec.scores[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(CreateError(spec), HasSubstr("tokenizer.ggml.scores: the score of token 7"));
  spec.scores.clear();
  EXPECT_THAT(CreateError(spec), HasSubstr("tokenizer.ggml.scores"));
}

TEST(SentencePiece, LongRunsOfOneLetter) {
  auto tokenizer = MakeTokenizer(SmallVocabulary({{"a", 0}, {"aa", 1}, {"aaaa", 2}}));
  EXPECT_EQ(EncodePlain(*tokenizer, std::string(1'000'000, 'a')), Ids(250'000, kFirstPiece + 2));
}

TEST(SentencePiece, AnyBytesComeBack) {
  auto tokenizer = MakeTokenizer(SmallVocabulary({{"\u2581", 0}, {"a", 0}, {"\u00E9", 0}}));
  std::mt19937 random(5);
  for (size_t size = 0; size < 300; ++size) {
    const std::string text = RandomBytes(random, size);
    EXPECT_EQ(tokenizer->Decode(EncodePlain(*tokenizer, text), SpecialText::kPlain), text);
  }
}

}  // namespace
}  // namespace tenon::testing
