#include "tokenizer_test_support.h"

namespace tenon::testing {
namespace {

// One token for every byte, in the byte-level alphabet: the id is the byte.
TokenizerSpec ByteSpec() {
  TokenizerSpec spec;
  spec.model = "llama";
  spec.add_space_prefix = false;
  const std::string digits = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256; ++byte)
    AddToken(spec, std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">",
             TokenType::kByte);
  AddToken(spec, "\u2581hi", TokenType::kNormal);  // 256
  AddToken(spec, "<s>", TokenType::kControl);      // 257
  return spec;
}

std::vector<std::string> Stream(const Tokenizer& tokenizer, std::string_view bytes) {
  StreamingDetokenizer stream(tokenizer);
  std::vector<std::string> parts;
  for (char byte : bytes)
    parts.push_back(stream.Push(static_cast<uint8_t>(byte)));
  parts.push_back(stream.Flush());
  return parts;
}

using Parts = std::vector<std::string>;

TEST(Streaming, HoldsACharacterUntilItIsWhole) {
  auto tokenizer = MakeTokenizer(ByteSpec());
  EXPECT_EQ(Stream(*tokenizer, "a\xF0\x9F\x98\x80z"),
            (Parts{"a", "", "", "", "\U0001F600", "z", ""}));
}

TEST(Streaming, FlushesAnUnfinishedCharacterOnce) {
  auto tokenizer = MakeTokenizer(ByteSpec());
  EXPECT_EQ(Stream(*tokenizer, "a\xF0\x9F\x98"), (Parts{"a", "", "", "", "\uFFFD"}));
  StreamingDetokenizer stream(*tokenizer);
  stream.Push(0xE2);
  EXPECT_EQ(stream.Flush(), "\uFFFD");
  EXPECT_EQ(stream.Flush(), "");
}

TEST(Streaming, ReplacesEachMaximalInvalidPart) {
  auto tokenizer = MakeTokenizer(ByteSpec());
  EXPECT_EQ(Stream(*tokenizer, "\xFF"), (Parts{"\uFFFD", ""}));
  EXPECT_EQ(Stream(*tokenizer, "\xE2\x82z"), (Parts{"", "", "\uFFFDz", ""}));
  EXPECT_EQ(Stream(*tokenizer, "\xE2\x82\xF0\x9F"), (Parts{"", "", "\uFFFD", "", "\uFFFD"}));
  EXPECT_EQ(Stream(*tokenizer, "\xC0\x80"), (Parts{"\uFFFD", "\uFFFD", ""}));
}

// The parts joined are the text, at any cut; nothing is held that is longer than three bytes.
TEST(Streaming, EqualsDecodingAtOnce) {
  auto tokenizer = MakeTokenizer(ByteSpec());
  const std::string text = "Caf\u00E9 \u20AC \U0001F468\u200D\U0001F469 \u4F60\u597D!";
  StreamingDetokenizer stream(*tokenizer);
  std::string joined;
  for (size_t i = 0; i < text.size(); ++i) {
    joined += stream.Push(static_cast<uint8_t>(text[i]));
    EXPECT_EQ(joined, text.substr(0, joined.size()));
    EXPECT_LE(i + 1 - joined.size(), 3u);
  }
  EXPECT_EQ(joined + stream.Flush(), text);
}

TEST(Streaming, DropsTheAddedSpaceAsDecodeDoes) {
  TokenizerSpec spec = ByteSpec();
  spec.add_space_prefix = true;
  auto tokenizer = MakeTokenizer(spec);
  for (SpecialText special : {SpecialText::kPlain, SpecialText::kParse}) {
    const Ids ids = {256, 256, 257, 256};
    StreamingDetokenizer stream(*tokenizer, special);
    std::string joined;
    for (int32_t id : ids)
      joined += stream.Push(id);
    EXPECT_EQ(joined, special == SpecialText::kPlain ? "hi hihi" : "hi hi<s>hi");
    EXPECT_EQ(joined, tokenizer->Decode(ids, special));
  }
}

TEST(Streaming, IgnoresIdsOutsideTheVocabulary) {
  auto tokenizer = MakeTokenizer(ByteSpec());
  StreamingDetokenizer stream(*tokenizer);
  EXPECT_EQ(stream.Push(-1) + stream.Push(100000) + stream.Push('a'), "a");
}

}  // namespace
}  // namespace tenon::testing
