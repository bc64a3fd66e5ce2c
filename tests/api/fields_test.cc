// What each field of the text endpoints does: honoured, refused by its name, or ignored.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <limits>

#include "api/fake_server.h"
#include "frontend/server/api/routes.h"

namespace tenon::testing {
namespace {

class FieldsTest : public ApiTest {
 protected:
  // The body with `field` merged in.
  static std::string Merge(const char* base, const std::string& field) {
    return std::string(base) + (field.empty() ? "" : ",") + field + "}";
  }
  static constexpr const char* kChat = R"({"messages":[{"role":"user","content":"hi"}])";
  static constexpr const char* kCompletion = R"({"prompt":"hi")";
};

struct Refusal {
  const char* field;
  const char* param;
};

const Refusal kRefusals[] = {
    {R"("stream":"true")", "stream"},
    {R"("stream":1)", "stream"},
    {R"("temperature":"1")", "temperature"},
    {R"("temperature":-1)", "temperature"},
    {R"("temperature":1e39)", "temperature"},
    {R"("repeat_penalty":0)", "repeat_penalty"},
    {R"("repetition_penalty":0)", "repetition_penalty"},
    {R"("top_p":2)", "top_p"},
    {R"("top_k":1.5)", "top_k"},
    {R"("top_k":-2)", "top_k"},
    {R"("min_p":[])", "min_p"},
    {R"("n":0)", "n"},
    {R"("n":1000)", "n"},
    {R"("seed":"x")", "seed"},
    {R"("seed":1.5)", "seed"},
    {R"("seed":99999999999999999999999)", "seed"},
    {R"("max_tokens":-2)", "max_tokens"},
    {R"("max_tokens":"5")", "max_tokens"},
    {R"("stop":5)", "stop"},
    {R"("stop":["a",5])", "stop[1]"},
    {R"("logit_bias":{"9999":1})", "logit_bias"},
    {R"("logit_bias":{"5":true})", "logit_bias"},
    {R"("logit_bias":{"5":"1"})", "logit_bias"},
    {R"("logit_bias":[[5]])", "logit_bias"},
    {R"("logit_bias":5)", "logit_bias"},
    {R"("mirostat":3)", "mirostat"},
    {R"("mirostat":1)", "mirostat"},
    {R"("frequency_penalty":"1")", "frequency_penalty"},
    {R"("dry_allowed_length":0)", "dry_allowed_length"},
    {R"("ignore_eos":1)", "ignore_eos"},
    {R"("cache_prompt":"no")", "cache_prompt"},
    {R"("grammar":"root ::= x")", "grammar"},
    {R"("json_schema":{"not":{}})", "json_schema.not"},
    {R"("json_schema":{},"guided_regex":"a")", "guided_regex"},
    {R"("response_format":{"type":"json_object","schema":false})", "response_format"},
    {R"("response_format":{"type":"json_schema","json_schema":{}})", "response_format"},
    {R"("response_format":{"type":"json_schema","json_schema":{"schema":{"pattern":"("}}})",
     "response_format.json_schema.schema.pattern"},
    {R"("response_format":{"type":"xml"})", "response_format"},
    {R"("guided_regex":"a(?=b)c")", "guided_regex"},
    {R"("guided_choice":["a",""])", "guided_choice"},
    {R"("guided_grammar":"x")", "guided_grammar"},
    {R"("guided_regex":"")", "guided_regex"},
    {R"("guided_choice":[])", "guided_choice"},
    {R"("guided_grammar":"")", "guided_grammar"},
    {R"("structured_outputs":{"choice":[]})", "structured_outputs.choice"},
    {R"("structured_outputs":{"regex":""})", "structured_outputs.regex"},
    {R"("structured_outputs":{"grammar":"x"})", "structured_outputs.grammar"},
    {R"("response_format":"text")", "response_format"},
    {R"("top_n_sigma":1)", "top_n_sigma"},
    {R"("lora":[{"id":0,"scale":1}])", "lora"},
    {R"("id_slot":-2)", "id_slot"},
    {R"("n_keep":-2)", "n_keep"},
    {R"("n_probs":5)", "n_probs"},
    {R"("response_fields":["content"])", "response_fields"},
    {R"("samplers":["temperature","top_k"])", "samplers"},
    {R"("include_stop_str_in_output":true)", "include_stop_str_in_output"},
    {R"("use_beam_search":true)", "use_beam_search"},
    {R"("bad_words":["a"])", "bad_words"},
    {R"("allowed_token_ids":[1])", "allowed_token_ids"},
    {R"("prompt_logprobs":1)", "prompt_logprobs"},
    {R"("stream_options":{"include_usage":true})", "stream_options"},
    {R"("stream":true,"stream_options":{"what":true})", "stream_options.what"},
    {R"("model":"other")", "model"},
    {R"("model":5)", "model"},
    {R"("tempratur":1)", "tempratur"},
};

TEST_F(FieldsTest, WrongValuesAreRefusedByName) {
  for (const auto& [base, path] :
       {std::pair(kChat, "/v1/chat/completions"), std::pair(kCompletion, "/v1/completions")}) {
    for (const Refusal& refusal : kRefusals) {
      const auto answer = Call("POST", path, Merge(base, refusal.field));
      EXPECT_EQ(answer->status, refusal.param == std::string("model") &&
                                        std::string(refusal.field).ends_with("\"other\"")
                                    ? 404
                                    : 400)
          << path << " " << refusal.field << " " << answer->body;
      ASSERT_TRUE(answer->ended) << refusal.field;
      EXPECT_EQ(answer->Body()["error"]["param"], refusal.param)
          << path << " " << refusal.field << " " << answer->body;
    }
  }
  EXPECT_TRUE(engine_.submitted.empty());
}

TEST_F(FieldsTest, RefusalsSayWhatWasFoundAndTheRealLimit) {
  const auto message = [this](const char* field) {
    const auto answer = Call("POST", "/v1/completions", Merge(kCompletion, field));
    EXPECT_EQ(answer->status, 400) << field;
    return answer->Body()["error"]["message"].get<std::string>();
  };
  EXPECT_THAT(message(R"("temperature":1e308)"), ::testing::HasSubstr("found 1e+308,"));
  EXPECT_THAT(message(R"("logit_bias":{"5":1e300})"), ::testing::HasSubstr("found 1e+300,"));
  EXPECT_THAT(message(R"("logit_bias":{"5":-1e300})"), ::testing::HasSubstr("found -1e+300,"));
  const std::string limit =
      fmt::format("expected an integer from 1 to {}, ", engine_.options().max_batch);
  for (const char* field : {R"("n":129)", R"("n":33)", R"("n":0)", R"("n":-99999999999)"}) {
    EXPECT_THAT(message(field), ::testing::HasSubstr(limit)) << field;
    EXPECT_THAT(message(field), ::testing::HasSubstr("--parallel")) << field;
  }
  EXPECT_TRUE(engine_.submitted.empty());
}

const Refusal kChatRefusals[] = {
    {R"("tool_choice":"required")", "tool_choice"},
    {R"("tool_choice":{"type":"function","function":{"name":"f"}})", "tool_choice"},
    {R"("tool_choice":"always")", "tool_choice"},
    {R"("tool_choice":"required","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"not":{}}}}}}])",
     "tools.0.function.parameters.properties.a.not"},
    {R"("tools":[{"type":"web"}])", "tools[0].type"},
    {R"("tools":{})", "tools"},
    {R"("parallel_tool_calls":"no")", "parallel_tool_calls"},
    {R"("functions":[{}])", "functions"},
    {R"("top_logprobs":3)", "top_logprobs"},
    {R"("logprobs":3)", "logprobs"},
    {R"("modalities":["audio"])", "modalities"},
    {R"("reasoning_format":"other")", "reasoning_format"},
    {R"("chat_template_kwargs":5)", "chat_template_kwargs"},
    {R"("chat_template_kwargs":{"messages":[]})", "chat_template_kwargs"},
    {R"("echo":true)", "echo"},
};

TEST_F(FieldsTest, WrongChatValuesAreRefusedByName) {
  for (const Refusal& refusal : kChatRefusals) {
    const auto answer = Call("POST", "/v1/chat/completions", Merge(kChat, refusal.field));
    EXPECT_EQ(answer->status, 400) << refusal.field;
    EXPECT_EQ(answer->Body()["error"]["param"], refusal.param) << answer->body;
  }
}

const Refusal kMessageRefusals[] = {
    {R"([])", "messages"},
    {R"("hi")", "messages"},
    {R"(["hi"])", "messages[0]"},
    {R"([{"role":"robot","content":"x"}])", "messages[0].role"},
    {R"([{"content":"x"}])", "messages[0].role"},
    {R"([{"role":"user","content":5}])", "messages[0].content"},
    {R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])",
     "messages[0].content[0].type"},
    {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text"},
    {R"([{"role":"user","content":"a","colour":1}])", "messages[0].colour"},
    {R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{"}}]}])",
     "messages[0].tool_calls[0].function.arguments"},
    {R"([{"role":"assistant","tool_calls":[{}]}])", "messages[0].tool_calls[0].function.name"},
};

TEST_F(FieldsTest, WrongMessagesAreRefusedByPlace) {
  for (const Refusal& refusal : kMessageRefusals) {
    const auto answer =
        Call("POST", "/v1/chat/completions", std::string(R"({"messages":)") + refusal.field + "}");
    EXPECT_EQ(answer->status, 400) << refusal.field;
    EXPECT_EQ(answer->Body()["error"]["param"], refusal.param) << answer->body;
  }
}

const Refusal kCompletionRefusals[] = {
    {R"({})", "prompt"},
    {R"({"prompt":5})", "prompt"},
    {R"({"prompt":""})", "prompt"},
    {R"({"prompt":[]})", "prompt"},
    {R"({"prompt":[1,-1]})", "prompt[1]"},
    {R"({"prompt":[99999]})", "prompt"},
    {R"({"prompt":[[1],[true]]})", "prompt[1][0]"},
    {R"({"prompt":"a","suffix":"b"})", "suffix"},
    {R"({"prompt":"a","best_of":3})", "best_of"},
    {R"({"prompt":"a","logprobs":-1})", "logprobs"},
    {R"({"prompt":"a","echo":"yes"})", "echo"},
};

TEST_F(FieldsTest, WrongPromptsAreRefusedByName) {
  for (const Refusal& refusal : kCompletionRefusals) {
    const auto answer = Call("POST", "/v1/completions", refusal.field);
    EXPECT_EQ(answer->status, 400) << refusal.field;
    EXPECT_EQ(answer->Body()["error"]["param"], refusal.param) << answer->body;
  }
}

TEST_F(FieldsTest, SamplingFieldsReachTheEngine) {
  Call("POST", "/v1/chat/completions", Merge(kChat, R"(
    "temperature":0.25,"top_p":0.5,"top_k":-1,"min_p":0.125,"typical_p":0.75,
    "presence_penalty":0.5,"frequency_penalty":-0.5,"repeat_penalty":1.5,"repeat_last_n":-1,
    "dry_multiplier":0.5,"dry_base":2,"dry_allowed_length":3,"dry_penalty_last_n":9,
    "dry_sequence_breakers":["x"],"xtc_probability":0.5,"xtc_threshold":0.25,"mirostat":2,
    "mirostat_tau":4,"mirostat_eta":0.5,"seed":42,"stop":["a","b"],"n":3,"ignore_eos":true,
    "cache_prompt":false,"max_tokens":5,"max_completion_tokens":9,
    "logit_bias":{"65":false,"66":1.5},"logprobs":true,"top_logprobs":4,"cache_salt":"s")"));
  ASSERT_EQ(engine_.submitted.size(), 1U);
  const ServingRequest& request = engine_.submitted[0].request;
  const SamplingParams& sampling = request.sampling;
  EXPECT_EQ(sampling.temperature, 0.25F);
  EXPECT_EQ(sampling.top_p, 0.5F);
  EXPECT_EQ(sampling.top_k, 0);
  EXPECT_EQ(sampling.min_p, 0.125F);
  EXPECT_EQ(sampling.typical_p, 0.75F);
  EXPECT_EQ(sampling.presence_penalty, 0.5F);
  EXPECT_EQ(sampling.frequency_penalty, -0.5F);
  EXPECT_EQ(sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(sampling.penalty_last_n, -1);
  EXPECT_EQ(sampling.dry_multiplier, 0.5F);
  EXPECT_EQ(sampling.dry_base, 2.0F);
  EXPECT_EQ(sampling.dry_allowed_length, 3);
  EXPECT_EQ(sampling.dry_penalty_last_n, 9);
  EXPECT_THAT(sampling.dry_sequence_breakers, ::testing::ElementsAre("x"));
  EXPECT_EQ(sampling.xtc_probability, 0.5F);
  EXPECT_EQ(sampling.xtc_threshold, 0.25F);
  EXPECT_EQ(sampling.mirostat, 2);
  EXPECT_EQ(sampling.mirostat_tau, 4.0F);
  EXPECT_EQ(sampling.mirostat_eta, 0.5F);
  EXPECT_EQ(sampling.seed, 42U);
  EXPECT_EQ(sampling.logprobs, 4);
  ASSERT_EQ(sampling.logit_bias.size(), 2U);
  EXPECT_EQ(sampling.logit_bias[0].token, 65);
  EXPECT_EQ(sampling.logit_bias[0].bias, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(sampling.logit_bias[1].bias, 1.5F);
  EXPECT_THAT(request.stop, ::testing::ElementsAre("a", "b"));
  EXPECT_EQ(request.choices, 3);
  EXPECT_EQ(request.end_tokens, EndTokens::kIgnore);
  EXPECT_EQ(request.prefix_cache, PrefixCache::kOff);
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_FALSE(request.scope.salt.empty());
}

// Lower goes first for clients, higher for the scheduler.
TEST_F(FieldsTest, APriorityCountsOnlyWhereTheServerAllowsIt) {
  const std::string body = Merge(kChat, R"("priority":-5)");
  EXPECT_EQ(Call("POST", "/v1/chat/completions", body)->Body()["error"]["param"], "priority");
  EXPECT_FALSE(Call("POST", "/v1/chat/completions", Merge(kChat, R"("priority":0)"))->ended);
  ApiOptions options = context_.options();
  options.client_priority = ClientPriority::kHonoured;
  ApiContext allowing(options);
  allowing.SetEngine(&engine_);
  Router router;
  AddApiRoutes(allowing, router);
  routes_ = std::make_unique<RouteTable>(std::move(router));
  Call("POST", "/v1/chat/completions", body);
  Call("POST", "/v1/completions", Merge(kCompletion, R"("priority":7)"));
  ASSERT_EQ(engine_.submitted.size(), 3U);
  EXPECT_EQ(engine_.submitted[0].request.priority, 0);
  EXPECT_EQ(engine_.submitted[1].request.priority, 5);
  EXPECT_EQ(engine_.submitted[2].request.priority, -7);
}

TEST_F(FieldsTest, NullIsTheDefaultAndIgnoredFieldsChangeNothing) {
  const SamplingParams defaults;
  const auto answer = Call("POST", "/v1/chat/completions", Merge(kChat, R"(
    "temperature":null,"n":null,"stop":null,"stream":null,"max_tokens":null,"logit_bias":null,
    "tools":null,"response_format":null,"grammar":"","guided_regex":null,"guided_choice":null,"stream_options":null,"model":null,
    "include_stop_str_in_output":false,"use_beam_search":false,"length_penalty":1.0,"bad_words":[],
    "allowed_token_ids":null,"prompt_logprobs":null,"spaces_between_special_tokens":true,"user":"u","metadata":{"a":"b"},"store":true,"service_tier":"auto")"));
  EXPECT_FALSE(answer->ended) << answer->body;
  ASSERT_EQ(engine_.submitted.size(), 1U);
  EXPECT_EQ(engine_.submitted[0].request.sampling.temperature, defaults.temperature);
  EXPECT_EQ(engine_.submitted[0].request.choices, 1);
  EXPECT_EQ(engine_.submitted[0].request.max_tokens, -1);
}

TEST_F(FieldsTest, LogitBiasAsAListAndAsText) {
  Call("POST", "/v1/completions", Merge(kCompletion, R"("logit_bias":[[65,1],["BC",-2]])"));
  ASSERT_EQ(engine_.submitted.size(), 1U);
  const auto& bias = engine_.submitted[0].request.sampling.logit_bias;
  ASSERT_EQ(bias.size(), 3U);
  EXPECT_EQ(bias[1].token, 'B');
  EXPECT_EQ(bias[2].token, 'C');
  EXPECT_EQ(bias[2].bias, -2.0F);
}

TEST_F(FieldsTest, PromptsInEveryShape) {
  struct {
    const char* prompt;
    std::vector<std::vector<int32_t>> expected;
  } const cases[] = {
      {R"("AB")", {{65, 66}}},
      {R"([65,66])", {{65, 66}}},
      {R"(["A","BC"])", {{65}, {66, 67}}},
      {R"([[65],[66,67]])", {{65}, {66, 67}}},
      {R"(["AB",67,"D"])", {{65, 66, 67, 68}}},
      {R"(["AB",[67]])", {{65, 66}, {67}}},
  };
  for (const auto& test : cases)
    EXPECT_EQ(PromptsOf("/v1/completions", test.prompt), test.expected) << test.prompt;
}

TEST_F(FieldsTest, ContentPartsNullAndDeveloperBecomeWhatTemplatesKnow) {
  const auto answer = Call("POST", "/apply-template", R"({"messages":[
    {"role":"developer","content":"s"},
    {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
    {"role":"assistant","content":null}]})");
  EXPECT_EQ(answer->Body()["prompt"],
            "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nab<|im_end|>\n"
            "<|im_start|>assistant\n<|im_end|>\n<|im_start|>assistant\n");
}

// The same spelling in a user's text is no control token.
TEST_F(FieldsTest, ControlTextOfUsersStaysText) {
  Call("POST", "/v1/chat/completions", R"({"messages":[{"role":"user","content":"<|im_end|>"}]})");
  ASSERT_EQ(engine_.submitted.size(), 1U);
  EXPECT_EQ(std::ranges::count(engine_.submitted[0].request.prompt, 257), 1);
}

}  // namespace
}  // namespace tenon::testing
