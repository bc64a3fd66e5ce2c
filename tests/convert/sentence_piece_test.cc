// tokenizer.json written from SentencePiece vocabularies of GGUF: read again, it gives the same
// tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "frontend/convert/tokenizer_json_writer.h"
#include "model/hf/tokenizer_json.h"
#include "model/model_source.h"
#include "model/tokenizer/tokenizer.h"

namespace tenon::testing {
namespace {

using Ids = std::vector<int32_t>;

void Add(TokenizerSpec& spec, std::string text, TokenType type, float score) {
  spec.tokens.push_back(std::move(text));
  spec.types.push_back(type);
  spec.scores.push_back(score);
}

// All letters that texts are made of, and random pieces of them; equal scores are none.
TokenizerSpec RandomVocabulary(uint64_t seed, bool prefix) {
  std::mt19937_64 random(seed);
  TokenizerSpec spec;
  spec.model = "llama";
  spec.unknown_id = 0;
  spec.bos_id = 1;
  spec.add_space_prefix = prefix;
  Add(spec, "<unk>", TokenType::kUnknown, 0.0F);
  Add(spec, "<s>", TokenType::kControl, 0.0F);
  Add(spec, "<user>", TokenType::kUserDefined, 0.0F);
  const std::string digits = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256; ++byte)
    Add(spec, std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">", TokenType::kByte,
        0.0F);
  const std::vector<std::string> letters = {"\u2581", "a", "b", "c", "\u00e9"};
  float score = -1.0F;
  for (const std::string& letter : letters)
    Add(spec, letter, TokenType::kNormal, score -= 1000.0F);
  for (int i = 0; i < 60; ++i) {
    std::string piece;
    for (size_t n = 2 + random() % 3; n > 0; --n)
      piece += letters[random() % letters.size()];
    if (std::find(spec.tokens.begin(), spec.tokens.end(), piece) == spec.tokens.end())
      Add(spec, piece, TokenType::kNormal, -static_cast<float>(random() % 1000000) / 1000.0F);
  }
  return spec;
}

Result<std::unique_ptr<Tokenizer>> ThroughJson(const TokenizerSpec& spec) {
  TENON_ASSIGN_OR_RETURN(const auto json, MakeTokenizerJson(spec));
  TENON_ASSIGN_OR_RETURN(const JsonDocument document,
                         JsonDocument::Parse(json.dump(), "tokenizer.json"));
  TENON_ASSIGN_OR_RETURN(
      TokenizerSpec read,
      ReadTokenizerJson(document.root(), static_cast<int64_t>(spec.tokens.size())));
  return Tokenizer::Create(std::move(read));
}

std::string RandomText(std::mt19937_64& random) {
  const std::vector<std::string> parts = {"a",  "b", "c",  "\u00e9", " ",      "  ",
                                          "ab", "x", "\n", "\u20ac", "<user>", "bca"};
  std::string text;
  for (size_t n = 1 + random() % 24; n > 0; --n)
    text += parts[random() % parts.size()];
  return text;
}

TEST(SentencePieceJson, GivesTheSameTokensAndTexts) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const TokenizerSpec spec = RandomVocabulary(seed, false);
    auto ours = Tokenizer::Create(spec);
    ASSERT_TRUE(ours.ok()) << ours.error().ToString();
    auto read = ThroughJson(spec);
    ASSERT_TRUE(read.ok()) << read.error().ToString();
    std::mt19937_64 random(seed);
    for (int i = 0; i < 50; ++i) {
      const std::string text = RandomText(random);
      const Ids ids = (*ours)->Encode(text, SpecialText::kPlain, AddSpecial::kNone);
      EXPECT_EQ((*read)->Encode(text, SpecialText::kPlain, AddSpecial::kNone), ids) << text;
      EXPECT_EQ((*read)->Decode(ids, SpecialText::kPlain),
                (*ours)->Decode(ids, SpecialText::kPlain));
    }
  }
}

TEST(SentencePieceJson, PutsTheSpaceInFront) {
  const TokenizerSpec spec = RandomVocabulary(7, true);
  auto ours = Tokenizer::Create(spec);
  auto read = ThroughJson(spec);
  ASSERT_TRUE(ours.ok() && read.ok());
  for (const char* text : {"a", "abc a", " a", "\u00e9x b"}) {
    const Ids ids = (*ours)->Encode(text, SpecialText::kPlain, AddSpecial::kNone);
    EXPECT_EQ((*read)->Encode(text, SpecialText::kPlain, AddSpecial::kNone), ids) << text;
    EXPECT_EQ((*read)->Decode(ids, SpecialText::kPlain), text);
  }
}

// A real vocabulary of 262144 tokens, and what its own tokenizer makes of texts.
TEST(SentencePieceJson, Gemma3) {
  const char* home = std::getenv("TENON_HOME");
  const std::filesystem::path path =
      std::filesystem::path(home == nullptr ? "" : home) / "models" / "gemma-3-270m.gguf";
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << "the model gemma-3-270m.gguf is not in $TENON_HOME/models";
  auto source = OpenModel(path);
  ASSERT_TRUE(source.ok()) << source.error().ToString();
  auto read = ThroughJson(source->tokenizer);
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  std::ifstream golden("tests/data/tokenizer_gemma-3-270m.jsonl");
  int count = 0;
  for (std::string line; std::getline(golden, line); ++count) {
    const auto entry = nlohmann::json::parse(line);
    const auto text = entry["text"].get<std::string>();
    EXPECT_EQ((*read)->Encode(text, SpecialText::kPlain, AddSpecial::kNone),
              entry["ids"].get<Ids>())
        << text;
  }
  EXPECT_GT(count, 100);
}

}  // namespace
}  // namespace tenon::testing
