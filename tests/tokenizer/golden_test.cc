// The development models' tokenizers against ids that independent implementations made
// (scripts/make_tokenizer_golden.py).
#include "tokenizer_test_support.h"

namespace tenon::testing {
namespace {

class Golden : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto path = ModelPath(GetParam());
    if (path.empty())
      GTEST_SKIP() << "$TENON_HOME/models/" << GetParam() << ".gguf is missing";
    auto source = OpenModel(path);
    ASSERT_TRUE(source.ok()) << source.error().ToString();
    tokenizer_ = MakeTokenizer(std::move(source->tokenizer));
    ASSERT_NE(tokenizer_, nullptr);
  }

  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(Golden, IdsEqualTheReference) {
  const auto lines = ReadGolden(std::string("tokenizer_") + GetParam() + ".jsonl");
  EXPECT_GE(lines.size(), 390u);
  for (const nlohmann::json& line : lines)
    EXPECT_EQ(EncodePlain(*tokenizer_, line["text"].get<std::string>()), line["ids"].get<Ids>())
        << line["text"];
}

// What can't come back: bytes that SmolLM2 has no tokens for, and SentencePiece's own space sign.
constexpr std::string_view kLostBytes = "\xF1\xF2\xF3\xF4";
constexpr std::string_view kLostSpace = "\u2581";

TEST_P(Golden, TextsComeBackAtOnceAndStreamed) {
  int compared = 0;
  for (const nlohmann::json& line : ReadGolden(std::string("tokenizer_") + GetParam() + ".jsonl")) {
    const std::string text = line["text"];
    const Ids ids = line["ids"].get<Ids>();
    if (ids.empty() || text.find_first_of(kLostBytes) != std::string::npos ||
        text.find(kLostSpace) != std::string::npos)
      continue;
    EXPECT_EQ(tokenizer_->Decode(ids, SpecialText::kPlain), text);
    StreamingDetokenizer stream(*tokenizer_);
    std::string streamed;
    for (int32_t id : ids)
      streamed += stream.Push(id);
    EXPECT_EQ(streamed + stream.Flush(), text);
    ++compared;
  }
  EXPECT_GT(compared, 150);
}

TEST_P(Golden, ChatMarkersAreOneTokenOnlyWhenParsed) {
  const bool gemma = std::string(GetParam()).starts_with("gemma");
  const std::string marker = gemma ? "<end_of_turn>" : "<|im_end|>";
  const Ids parsed = tokenizer_->Encode(marker, SpecialText::kParse, AddSpecial::kNone);
  ASSERT_EQ(parsed.size(), 1u);
  const auto& stops = tokenizer_->stop_ids();
  EXPECT_NE(std::find(stops.begin(), stops.end(), parsed[0]), stops.end());
  EXPECT_GT(EncodePlain(*tokenizer_, marker).size(), 1u);
  EXPECT_EQ(tokenizer_->Decode(EncodePlain(*tokenizer_, marker), SpecialText::kPlain), marker);
}

TEST_P(Golden, AnyBytesGiveValidIds) {
  std::mt19937 random(17);
  const bool all_bytes = std::string(GetParam()).starts_with("gemma");
  for (size_t size = 0; size < 200; ++size) {
    const std::string text = RandomBytes(random, size);
    const Ids ids = EncodePlain(*tokenizer_, text);
    EXPECT_EQ(ids.empty(), text.empty());
    for (int32_t id : ids)
      ASSERT_TRUE(id >= 0 && id < tokenizer_->vocab_size());
    if (all_bytes) {
      EXPECT_EQ(tokenizer_->Decode(ids, SpecialText::kPlain), text);
    }
  }
}

std::string ShortName(const ::testing::TestParamInfo<const char*>& model) {
  return std::string(model.param).substr(0, 5);
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, ::testing::Values("smollm2-135m-instruct", "gemma-3-270m"),
                         ShortName);

}  // namespace
}  // namespace tenon::testing
