// Special tokens, beginning and end tokens, and what ends a generation.
#include <gmock/gmock.h>

#include "model/tokenizer/special_matcher.h"
#include "tokenizer_test_support.h"

namespace tenon::testing {
namespace {

using ::testing::ElementsAre;

TEST(SpecialMatcher, TakesTheLeftmostAndThenTheLongest) {
  SpecialMatcher matcher;
  matcher.Add("ab", 1);
  matcher.Add("abcd", 2);
  matcher.Add("bcdefg", 3);
  matcher.Add("", 4);
  matcher.Add("ab", 5);
  auto found = matcher.Find("xxabcdefg", 0);
  EXPECT_EQ(found.begin, 2u);
  EXPECT_EQ(found.length, 4u);
  EXPECT_EQ(found.id, 2);
  found = matcher.Find("xxabcxbcdefg", 0);  // "abc" is only half of "abcd"
  EXPECT_EQ(found.id, 1);
  found = matcher.Find("xxabcxbcdefg", 3);
  EXPECT_EQ(found.begin, 6u);
  EXPECT_EQ(found.id, 3);
  EXPECT_EQ(matcher.Find("abx", 1).length, 0u);
}

TokenizerSpec ChatSpec() {
  TokenizerSpec spec = SmallBpe({{"a", "b"}});
  AddToken(spec, "<|im_start|>", TokenType::kControl);  // 10
  AddToken(spec, "<|im_end|>", TokenType::kControl);    // 11
  AddToken(spec, "<think>", TokenType::kUserDefined);   // 12
  AddToken(spec, "<", TokenType::kNormal);              // 13
  AddToken(spec, "|", TokenType::kNormal);              // 14
  AddToken(spec, ">", TokenType::kNormal);              // 15
  return spec;
}

TEST(Special, ControlTokensAreParsedOnlyWhenAsked) {
  auto tokenizer = MakeTokenizer(ChatSpec());
  const std::string text = "a<|im_end|>b";
  EXPECT_EQ(tokenizer->Encode(text, SpecialText::kParse, AddSpecial::kNone), (Ids{0, 11, 1}));
  // The letters of "im_end" that this vocabulary has are e and d.
  EXPECT_EQ(EncodePlain(*tokenizer, text), (Ids{0, 13, 14, 4, 3, 14, 15, 1}));
}

TEST(Special, UserDefinedTokensAlwaysMatch) {
  auto tokenizer = MakeTokenizer(ChatSpec());
  EXPECT_EQ(EncodePlain(*tokenizer, "ab<think>ab"), (Ids{9, 12, 9}));
  EXPECT_EQ(tokenizer->Encode("<think>", SpecialText::kParse, AddSpecial::kNone), (Ids{12}));
}

TEST(Special, ControlTokensHaveNoBytesInPlainText) {
  auto tokenizer = MakeTokenizer(ChatSpec());
  EXPECT_EQ(tokenizer->Decode({10, 0, 12, 11}, SpecialText::kPlain), "a<think>");
  EXPECT_EQ(tokenizer->Decode({10, 0, 11}, SpecialText::kParse), "<|im_start|>a<|im_end|>");
}

TEST(Special, BeginningAndEndAreAddedWhenTheFileSaysSo) {
  TokenizerSpec spec = ChatSpec();
  spec.bos_id = 10;
  spec.eos_id = 11;
  auto none = MakeTokenizer(spec);
  EXPECT_FALSE(none->add_bos());
  EXPECT_EQ(none->Encode("a", SpecialText::kPlain, AddSpecial::kModelDefault), (Ids{0}));
  spec.add_bos = true;
  spec.add_eos = true;
  auto both = MakeTokenizer(spec);
  EXPECT_TRUE(both->add_bos());
  EXPECT_EQ(both->Encode("a", SpecialText::kPlain, AddSpecial::kModelDefault), (Ids{10, 0, 11}));
  EXPECT_EQ(both->Encode("", SpecialText::kPlain, AddSpecial::kModelDefault), (Ids{10, 11}));
  EXPECT_EQ(both->Encode("a", SpecialText::kPlain, AddSpecial::kNone), (Ids{0}));
  EXPECT_EQ(both->bos_id(), 10);
  EXPECT_EQ(both->eos_id(), 11);
  EXPECT_EQ(both->vocab_size(), 16);
}

TEST(Special, StopIdsAreTheUnion) {
  TokenizerSpec spec = ChatSpec();
  spec.eos_id = 9;
  spec.eot_id = 2;
  spec.stop_ids = {3, 9};
  EXPECT_THAT(MakeTokenizer(spec)->stop_ids(), ElementsAre(2, 3, 9, 11));
}

TEST(Special, StopNamesCountOnlyAsSpecialTokens) {
  TokenizerSpec spec = SmallBpe({{"a", "b"}});
  AddToken(spec, "<|eot_id|>", TokenType::kNormal);       // 10
  AddToken(spec, "</s>", TokenType::kUserDefined);        // 11: HTML
  AddToken(spec, "<end_of_turn>", TokenType::kControl);   // 12
  AddToken(spec, "<|im_end|>", TokenType::kUserDefined);  // 13
  EXPECT_THAT(MakeTokenizer(spec)->stop_ids(), ElementsAre(12, 13));
}

}  // namespace
}  // namespace tenon::testing
