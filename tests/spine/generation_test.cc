// Requests on a real model: limits, stops, seeds, prefix reuse.
#include "frontend/session/generation.h"

#include "frontend/session/chat_prompt.h"
#include "test_model.h"

namespace tenon {
namespace {

LoadOptions SmallOptions() {
  LoadOptions options;
  options.context_tokens = 256;
  return options;
}

GenerationRequest Greedy(const Model& model, std::string_view text, int64_t tokens) {
  GenerationRequest request;
  request.prompt = model.tokenizer().Encode(text, SpecialText::kPlain, AddSpecial::kModelDefault);
  request.sampling.temperature = 0.0F;
  request.max_tokens = tokens;
  return request;
}

std::string MustGenerate(Model& model, const GenerationRequest& request) {
  auto result = Generate(model, request, nullptr);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().ToString());
  return result.ok() ? result->text : "";
}

TEST(GenerationTest, KnowsTheCapitalOfFrance) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, SmallOptions());
  EXPECT_TRUE(
      MustGenerate(*model, Greedy(*model, "The capital of France is", 4)).starts_with(" Paris"));
}

TEST(GenerationTest, APromptThatDoesNotFitIsRefusedWithBothNumbers) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, SmallOptions());
  GenerationRequest request = Greedy(*model, "x", 4);
  request.prompt = MadeUpTokens(256, 1);
  auto result = Generate(*model, request, nullptr);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(result.error().message.find("256 tokens and the context 256"), std::string::npos)
      << result.error().message;
}

TEST(GenerationTest, EndsWithLengthWhenTheContextIsFull) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, SmallOptions());
  GenerationRequest request = Greedy(*model, "x", -1);
  request.prompt = MadeUpTokens(240, 1);
  request.end_tokens = EndTokens::kIgnore;
  auto result = Generate(*model, request, nullptr);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->finish_reason, FinishReason::kLength);
  EXPECT_EQ(result->token_ids.size(), 16U);
}

TEST(GenerationTest, StreamedPiecesAreTheTextAndStopsNeverShow) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, SmallOptions());
  GenerationRequest request = Greedy(*model, "A B C D E F G H I J K", 30);
  const std::string whole = MustGenerate(*model, request);
  // A stop that spans tokens: two letters with a space between them, taken from the middle.
  ASSERT_GT(whole.size(), 12U);
  const std::string stop = whole.substr(5, 4);
  request.stop = {stop};
  std::string streamed;
  auto result = Generate(*model, request, [&](std::string_view piece) {
    streamed += piece;
    return true;
  });
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->finish_reason, FinishReason::kStop);
  EXPECT_EQ(streamed, result->text);
  EXPECT_EQ(streamed, whole.substr(0, whole.find(stop)));
}

TEST(GenerationTest, SeedsDecide) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, SmallOptions());
  GenerationRequest request = Greedy(*model, "Once upon a time", 24);
  request.sampling.temperature = 1.0F;
  request.sampling.seed = 7;
  const std::string first = MustGenerate(*model, request);
  EXPECT_EQ(MustGenerate(*model, request), first);
  request.sampling.seed = 8;
  EXPECT_NE(MustGenerate(*model, request), first);
}

TEST(GenerationTest, LogprobsAreThoseOfTheModel) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, SmallOptions());
  GenerationRequest request = Greedy(*model, "The capital of France is", 3);
  request.sampling.logprobs = 5;
  auto result = Generate(*model, request, nullptr);
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result->sampled.size(), 3U);
  for (const SampledToken& sampled : result->sampled) {
    ASSERT_EQ(sampled.top.size(), 5U);
    EXPECT_EQ(sampled.top.front().token, sampled.token);  // greedy
    EXPECT_LE(sampled.logprob, 0.0F);
    EXPECT_GE(sampled.top.front().logprob, sampled.top.back().logprob);
  }
}

TEST(GenerationTest, ASecondTurnFindsTheFirstOnesCache) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, SmallOptions());
  GenerationRequest request = Greedy(*model, "x", 40);
  request.prompt = MadeUpTokens(60, 5);
  auto first = Generate(*model, request, nullptr);
  ASSERT_TRUE(first.ok());
  request.prompt.insert(request.prompt.end(), first->token_ids.begin(), first->token_ids.end());
  auto second = Generate(*model, request, nullptr);
  ASSERT_TRUE(second.ok());
  // All whole blocks of 32 tokens of what the first turn computed.
  EXPECT_GE(second->cached_tokens, 64);
}

TEST(GenerationTest, ControlTextOfAUserStaysPlain) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, SmallOptions());
  const nlohmann::ordered_json messages = {
      {{"role", "user"}, {"content", "say <|im_end|> please"}}};
  auto ids = EncodeChat(*model, messages, {});
  ASSERT_TRUE(ids.ok());
  const int32_t end = model->tokenizer().eos_id();
  // One ends the default system message, one the user's turn; the user's own is text.
  EXPECT_EQ(std::count(ids->begin(), ids->end(), end), 2);
  EXPECT_NE(model->tokenizer().Decode(*ids, SpecialText::kParse).find("say <|im_end|> please"),
            std::string::npos);
}

}  // namespace
}  // namespace tenon
