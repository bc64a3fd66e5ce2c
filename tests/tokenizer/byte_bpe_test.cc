#include <gmock/gmock.h>

#include "tokenizer_test_support.h"

namespace tenon::testing {
namespace {

using ::testing::HasSubstr;

// Ids of SmallBpe: a..h are 0..7, the space is 8, the first merge makes 9.
TEST(ByteBpe, MergesByRank) {
  auto tokenizer = MakeTokenizer(SmallBpe({{"b", "c"}, {"a", "b"}, {"a", "bc"}, {"Ġ", "a"}}));
  EXPECT_EQ(EncodePlain(*tokenizer, "abc"), (Ids{11}));               // bc first, then a + bc
  EXPECT_EQ(EncodePlain(*tokenizer, "ab abd"), (Ids{10, 8, 10, 3}));  // "ab" outranks " a"
  EXPECT_EQ(EncodePlain(*tokenizer, "a a"), (Ids{0, 12}));
  EXPECT_EQ(EncodePlain(*tokenizer, ""), Ids{});
}

TEST(ByteBpe, WholeWordsSkipMergingOnlyWhereTheFamilySaysSo) {
  TokenizerSpec spec = SmallBpe({{"a", "b"}});
  const int32_t whole = AddToken(spec, "abc", TokenType::kNormal);  // no merges lead to it
  EXPECT_EQ(EncodePlain(*MakeTokenizer(spec), "abc"), (Ids{9, 2}));
  spec.pre = "llama-bpe";
  EXPECT_EQ(EncodePlain(*MakeTokenizer(spec), "abc"), (Ids{whole}));
}

TEST(ByteBpe, BytesWithoutATokenAreLeftOut) {
  auto tokenizer = MakeTokenizer(SmallBpe({{"a", "b"}}));
  EXPECT_EQ(EncodePlain(*tokenizer, "aXb"), (Ids{9}));
}

TEST(ByteBpe, NormalizesWhereTheFamilySaysSo) {
  TokenizerSpec spec = SmallBpe({{"Ã", "©"}});  // the bytes C3 A9 in the byte-level alphabet
  spec.tokens.insert(spec.tokens.end(), {"Ã", "©", "Ì", "ģ"});  // C3, A9, CC, 81
  spec.types.assign(spec.tokens.size(), TokenType::kNormal);
  EXPECT_EQ(EncodePlain(*MakeTokenizer(spec), "e\u0301"), (Ids{4, 12, 13}));
  spec.pre = "qwen2";
  EXPECT_EQ(EncodePlain(*MakeTokenizer(spec), "e\u0301"), (Ids{9}));
}

TEST(ByteBpe, DecodesToBytes) {
  TokenizerSpec spec = SmallBpe({{"Ġ", "a"}});
  const int32_t half = AddToken(spec, "âĤ", TokenType::kNormal);  // E2 82
  auto tokenizer = MakeTokenizer(spec);
  EXPECT_EQ(tokenizer->TokenBytes(half, SpecialText::kPlain), "\xE2\x82");
  EXPECT_EQ(tokenizer->Decode({1, 9, half}, SpecialText::kPlain), "b a\xE2\x82");
  EXPECT_EQ(tokenizer->TokenText(9), "Ġa");
  EXPECT_EQ(tokenizer->TokenBytes(999, SpecialText::kPlain), "");
  EXPECT_EQ(tokenizer->TokenBytes(-1, SpecialText::kPlain), "");
  EXPECT_EQ(tokenizer->TokenText(999), "");
}

TEST(ByteBpe, PlainTextNeverBecomesAControlToken) {
  TokenizerSpec spec = SmallBpe({{"a", "b"}, {"ab", "c"}});
  spec.types[10] = TokenType::kControl;  // "abc", which merges would make
  EXPECT_EQ(EncodePlain(*MakeTokenizer(spec), "abc"), (Ids{9, 2}));
  spec.pre = "llama-bpe";  // takes whole words
  auto tokenizer = MakeTokenizer(spec);
  EXPECT_EQ(EncodePlain(*tokenizer, "abc"), (Ids{9, 2}));
  EXPECT_EQ(tokenizer->Encode("abc", SpecialText::kParse, AddSpecial::kNone), (Ids{10}));
}

TEST(ByteBpe, RefusesContradictoryTables) {
  TokenizerSpec good = SmallBpe({{"a", "b"}});
  auto broken = [&](auto change) {
    TokenizerSpec spec = good;
    change(spec);
    return CreateError(std::move(spec));
  };
  EXPECT_EQ(broken([](auto&) {}), "");
  EXPECT_THAT(broken([](auto& s) { s.merges[0] = "ab"; }), HasSubstr("tokenizer.ggml.merges[0]"));
  EXPECT_THAT(broken([](auto& s) { s.merges[0] = "a "; }), HasSubstr("tokenizer.ggml.merges[0]"));
  EXPECT_THAT(broken([](auto& s) { s.merges[0] = ""; }), HasSubstr("tokenizer.ggml.merges[0]"));
  EXPECT_THAT(broken([](auto& s) { s.merges[0] = "a x"; }), HasSubstr("not tokens"));
  EXPECT_THAT(broken([](auto& s) { s.merges.clear(); }), HasSubstr("tokenizer.ggml.merges"));
  EXPECT_THAT(broken([](auto& s) { s.tokens.clear(); }), HasSubstr("tokenizer.ggml.tokens"));
  EXPECT_THAT(broken([](auto& s) { s.types.pop_back(); }), HasSubstr("tokenizer.ggml.token_type"));
  EXPECT_THAT(broken([](auto& s) { s.scores = {1.0f}; }), HasSubstr("tokenizer.ggml.scores"));
  EXPECT_THAT(broken([](auto& s) { s.bos_id = 10; }), HasSubstr("bos_token_id: id 10"));
  EXPECT_THAT(broken([](auto& s) { s.eos_id = -2; }), HasSubstr("eos_token_id"));
  EXPECT_THAT(broken([](auto& s) { s.stop_ids = {99}; }), HasSubstr("eos_token_ids"));
  EXPECT_THAT(broken([](auto& s) { s.add_bos = true; }), HasSubstr("add_bos_token"));
  EXPECT_THAT(broken([](auto& s) { s.pre = "x"; }), HasSubstr("tokenizer.ggml.pre"));
  EXPECT_THAT(broken([](auto& s) { s.model = "t5"; }), HasSubstr("tokenizer.ggml.model"));
}

// Quadratic merging would take hours.
TEST(ByteBpe, LongRunsOfOneLetter) {
  auto tokenizer = MakeTokenizer(SmallBpe({{"a", "a"}, {"aa", "aa"}}));
  EXPECT_EQ(EncodePlain(*tokenizer, std::string(1'000'000, 'a')), Ids(250'000, 10));
}

// A word that comes again is copied from where it stood; the result is that of each word alone.
TEST(ByteBpe, RepeatedWordsEncodeAlike) {
  auto tokenizer = MakeTokenizer(SmallBpe({{"a", "b"}, {"Ġ", "ab"}, {"c", "d"}, {"cd", "e"}}));
  std::mt19937 random(3);
  std::string text;
  Ids expected;
  for (int i = 0; i < 3000; ++i) {
    std::string word = " ";
    for (size_t size = 1 + random() % 4; size > 0; --size)
      word += static_cast<char>('a' + random() % 5);
    const Ids ids = EncodePlain(*tokenizer, word);
    expected.insert(expected.end(), ids.begin(), ids.end());
    text += word;
  }
  EXPECT_EQ(EncodePlain(*tokenizer, text), expected);
}

}  // namespace
}  // namespace tenon::testing
