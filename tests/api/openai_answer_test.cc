// How OpenAI's text endpoints put an answer together.
#include <gmock/gmock.h>

#include "api/fake_server.h"

namespace tenon::testing {
namespace {

class OpenAiAnswerTest : public ApiTest {
 protected:
  static Json Chat() { return Json::parse(R"({"messages":[{"role":"user","content":"hi"}]})"); }

  // Content of the deltas of one choice.
  static std::string Content(const FakeWriter& writer, size_t index = 0,
                             const char* field = "content") {
    std::string text;
    for (const Json& event : writer.Events()) {
      for (const Json& choice : event["choices"]) {
        if (choice["index"] == index && choice["delta"].contains(field))
          text += choice["delta"][field].get<std::string>();
      }
    }
    return text;
  }
};

TEST_F(OpenAiAnswerTest, WholeChat) {
  const auto writer = Post("/v1/chat/completions", Chat());
  engine_.Answer(0, {"Hel", "", "lo"});
  EXPECT_EQ(writer->status, 200);
  const Json body = writer->Body();
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["model"], "tiny");
  EXPECT_EQ(body["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(body["choices"][0]["message"]["content"], "Hello");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_TRUE(body["choices"][0]["logprobs"].is_null());
  const auto prompt_tokens = engine_.submitted[0].request.prompt.size();
  EXPECT_EQ(body["usage"]["prompt_tokens"], prompt_tokens);
  EXPECT_EQ(body["usage"]["completion_tokens"], 7);
  EXPECT_EQ(body["usage"]["total_tokens"], prompt_tokens + 7);
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_TRUE(body["timings"].contains("predicted_per_second"));
}

TEST_F(OpenAiAnswerTest, StreamBeginsWithTheRoleAndEndsWithDone) {
  Json body = Chat();
  body["stream"] = true;
  const auto writer = Post("/v1/chat/completions", body);
  EXPECT_EQ(writer->content_type, "text/event-stream");
  EXPECT_EQ(writer->ping, ": ping\n\n");
  EXPECT_EQ(writer->body, "");
  engine_.Answer(0, {"Hel", "", "lo"});
  const auto events = writer->Events();
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0]["choices"][0]["delta"], Json({{"role", "assistant"}, {"content", ""}}));
  EXPECT_EQ(events[3]["choices"][0]["delta"], Json::object());
  EXPECT_EQ(events[3]["choices"][0]["finish_reason"], "stop");
  EXPECT_FALSE(events[3].contains("usage"));
  EXPECT_EQ(Content(*writer), "Hello");
  EXPECT_TRUE(writer->body.ends_with("data: [DONE]\n\n"));
  EXPECT_TRUE(writer->ended);
}

TEST_F(OpenAiAnswerTest, UsageChunkOnRequest) {
  Json body = Chat();
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  const auto writer = Post("/v1/chat/completions", body);
  engine_.Start(0, 5);
  engine_.Done(0);
  engine_.Finish(0);
  const auto events = writer->Events();
  EXPECT_TRUE(events.front()["usage"].is_null());
  EXPECT_EQ(events.back()["choices"], Json::array());
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 7);
}

TEST_F(OpenAiAnswerTest, ChoicesAreKeptApart) {
  Json body = Chat();
  body["n"] = 2;
  for (const bool stream : {false, true}) {
    body["stream"] = stream;
    const auto writer = Post("/v1/chat/completions", body);
    const size_t at = engine_.submitted.size() - 1;
    engine_.Start(at);
    engine_.Text(at, "a", 0);
    engine_.Text(at, "x", 1);
    engine_.Text(at, "b", 0);
    engine_.Done(at, FinishReason::kLength, 1);
    engine_.Done(at, FinishReason::kStop, 0);
    engine_.Finish(at);
    if (stream) {
      EXPECT_EQ(Content(*writer, 0), "ab");
      EXPECT_EQ(Content(*writer, 1), "x");
      continue;
    }
    const Json choices = writer->Body()["choices"];
    ASSERT_EQ(choices.size(), 2U);
    EXPECT_EQ(choices[0]["message"]["content"], "ab");
    EXPECT_EQ(choices[1]["message"]["content"], "x");
    EXPECT_EQ(choices[1]["finish_reason"], "length");
  }
}

TEST_F(OpenAiAnswerTest, ChatLogprobsWithBytes) {
  Json body = Chat();
  body["logprobs"] = true;
  body["top_logprobs"] = 1;
  const auto writer = Post("/v1/chat/completions", body);
  engine_.Answer(0, {"é"});
  const Json content = writer->Body()["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 2U);  // a token a byte
  EXPECT_EQ(content[0]["bytes"], Json::array({0xC3}));
  EXPECT_EQ(content[0]["logprob"], -0.5);
  ASSERT_EQ(content[0]["top_logprobs"].size(), 1U);
  EXPECT_EQ(content[0]["top_logprobs"][0]["bytes"], Json::array({0xC3}));
}

TEST_F(OpenAiAnswerTest, LogprobsWithoutAlternatives) {
  Json body = Chat();
  body["logprobs"] = true;
  const auto writer = Post("/v1/chat/completions", body);
  EXPECT_EQ(engine_.submitted[0].request.sampling.logprobs, 1);
  engine_.Answer(0, {"a"});
  EXPECT_EQ(writer->Body()["choices"][0]["logprobs"]["content"][0]["top_logprobs"], Json::array());
}

TEST_F(OpenAiAnswerTest, ToolCallsWholeAndStreamed) {
  Json body = Chat();
  body["tools"] = Json::parse(
      R"([{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])");
  const std::vector<std::string> pieces = {"Sure.\n<tool", "_call>{\"name\":\"f\",\"arg",
                                           "uments\":{\"a\":1}}</tool_call>"};
  const auto whole = Post("/v1/chat/completions", body);
  engine_.Answer(0, pieces);
  const Json choice = whole->Body()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "Sure.");
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["name"], "f");
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["arguments"], "{\"a\":1}");

  body["stream"] = true;
  const auto stream = Post("/v1/chat/completions", body);
  engine_.Answer(1, pieces);
  std::string arguments;
  for (const Json& event : stream->Events()) {
    const Json& delta = event["choices"][0]["delta"];
    if (!delta.contains("tool_calls"))
      continue;
    EXPECT_EQ(delta["tool_calls"][0]["index"], 0);
    arguments += delta["tool_calls"][0]["function"]["arguments"].get<std::string>();
  }
  EXPECT_EQ(arguments, "{\"a\":1}");
  EXPECT_EQ(Content(*stream), "Sure.");
}

TEST_F(OpenAiAnswerTest, WithoutParallelCallsTheFirstOneEndsTheAnswer) {
  Json body = Chat();
  body["tools"] = Json::parse(R"([{"type":"function","function":{"name":"f"}}])");
  body["parallel_tool_calls"] = false;
  const auto writer = Post("/v1/chat/completions", body);
  engine_.Answer(0, {"A <tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}</tool",
                     "_call><tool_call>{\"name\":\"f\"}</tool_call> more"});
  const Json message = writer->Body()["choices"][0]["message"];
  EXPECT_EQ(message["content"], "A");
  ASSERT_EQ(message["tool_calls"].size(), 1U);
  EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], "{\"a\":1}");
  body["parallel_tool_calls"] = true;
  const auto both = Post("/v1/chat/completions", body);
  engine_.Answer(
      1, {"<tool_call>{\"name\":\"f\"}</tool_call><tool_call>{\"name\":\"f\"}</tool_call>"});
  EXPECT_EQ(both->Body()["choices"][0]["message"]["tool_calls"].size(), 2U);
}

TEST_F(OpenAiAnswerTest, ToolsReachTheTemplateInTheirOrderUnlessNoneAreWanted) {
  Json body = Chat();
  body["tools"] = Json::parse(R"([{"type":"function","function":{"name":"f","a":1}}])");
  Post("/v1/chat/completions", body);
  const Tokenizer& tokenizer = model_->tokenizer();
  EXPECT_THAT(tokenizer.Decode(engine_.submitted[0].request.prompt, SpecialText::kParse),
              ::testing::HasSubstr(R"({"type": "function", "function": {"name": "f", "a": 1}})"));
  body["tool_choice"] = "none";
  const auto writer = Post("/v1/chat/completions", body);
  EXPECT_THAT(tokenizer.Decode(engine_.submitted[1].request.prompt, SpecialText::kParse),
              ::testing::Not(::testing::HasSubstr("function")));
  engine_.Answer(1, {"<tool_call>{\"name\":\"f\"}</tool_call>"});
  EXPECT_EQ(writer->Body()["choices"][0]["message"]["content"],
            "<tool_call>{\"name\":\"f\"}</tool_call>");
}

TEST_F(OpenAiAnswerTest, CompletionsOfSeveralPromptsWithEcho) {
  for (const bool stream : {false, true}) {
    engine_.submitted.clear();
    const auto writer =
        Post("/v1/completions",
             {{"prompt", Json::array({"A", "BC"})}, {"echo", true}, {"stream", stream}});
    ASSERT_EQ(engine_.submitted.size(), 2U);
    engine_.Answer(1, {"y"});
    EXPECT_FALSE(writer->ended);
    engine_.Answer(0, {"x"});
    EXPECT_TRUE(writer->ended);
    std::vector<std::string> texts(2);
    const auto events = stream ? writer->Events() : std::vector<Json>{writer->Body()};
    for (const Json& event : events) {
      for (const Json& choice : event["choices"])
        texts[choice["index"].get<size_t>()] += choice["text"].get<std::string>();
    }
    EXPECT_THAT(texts, ::testing::ElementsAre("Ax", "BCy"));
  }
}

TEST_F(OpenAiAnswerTest, ManyPromptsAreSubmittedLittleByLittle) {
  const auto writer = Post("/v1/completions", {{"prompt", std::vector<std::string>(100, "A")}});
  EXPECT_EQ(engine_.submitted.size(), 32U);
  engine_.Answer(0, {"x"});
  engine_.Answer(7, {"x"});
  EXPECT_EQ(engine_.submitted.size(), 34U);
  // A full queue is no end while others of its prompts run.
  engine_.refusal = MakeError(ErrorCode::kResourceExhausted, "full");
  engine_.Answer(1, {"x"});
  EXPECT_EQ(engine_.submitted.size(), 34U);
  EXPECT_FALSE(writer->ended);
  engine_.refusal.reset();
  engine_.Answer(2, {"x"});
  EXPECT_EQ(engine_.submitted.size(), 36U);
  for (size_t i = 3; i < engine_.submitted.size(); ++i) {
    if (i != 7)
      engine_.Answer(i, {"y"});
  }
  const Json choices = writer->Body()["choices"];
  ASSERT_EQ(choices.size(), 100U);
  EXPECT_EQ(choices[99]["text"], "y");
}

TEST_F(OpenAiAnswerTest, AListEndsWhenTheQueueStaysFull) {
  const auto writer = Post("/v1/completions", {{"prompt", std::vector<std::string>(40, "A")}});
  engine_.refusal = MakeError(ErrorCode::kResourceExhausted, "full");
  for (size_t i = 0; i < 32; ++i)
    engine_.Answer(i, {"x"});
  EXPECT_EQ(writer->status, 429);
}

TEST_F(OpenAiAnswerTest, AClientThatLeavesSubmitsNoMore) {
  const auto writer = Post("/v1/completions", {{"prompt", std::vector<std::string>(40, "A")}});
  writer->close();
  EXPECT_EQ(engine_.cancelled.size(), 32U);
  engine_.Answer(0, {"x"});
  EXPECT_EQ(engine_.submitted.size(), 32U);
}

TEST_F(OpenAiAnswerTest, MessagesDoNotRepeatAllThatWasSent) {
  const auto writer = Post("/v1/completions", {{"prompt", "a"}, {std::string(30'000, 'x'), 1}});
  EXPECT_EQ(writer->status, 400);
  EXPECT_LT(writer->body.size(), 5000U);
  const auto model = Post("/v1/completions", {{"prompt", "a"}, {"model", std::string(9999, 'x')}});
  EXPECT_EQ(model->status, 404);
  EXPECT_LT(model->body.size(), 5000U);
}

TEST_F(OpenAiAnswerTest, CompletionLogprobsWithEchoCoverThePrompt) {
  const auto writer = Post("/v1/completions", {{"prompt", "ABC"}, {"echo", true}, {"logprobs", 1}});
  EXPECT_EQ(engine_.submitted[0].request.prompt_logprobs, PromptLogprobs::kYes);
  ServingEvent started;
  started.kind = ServingEvent::Kind::kStarted;
  started.prompt_tokens = 3;
  started.prompt_logprobs = {{66, -1.0F, {{66, -1.0F}}}, {67, -2.0F, {{70, -0.25F}}}};
  engine_.submitted[0].sink(started);
  engine_.Text(0, "D");
  engine_.Done(0);
  engine_.Finish(0);
  const Json logprobs = writer->Body()["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], Json({"A", "B", "C", "D"}));
  EXPECT_EQ(logprobs["token_logprobs"], Json({nullptr, -1.0, -2.0, -0.5}));
  EXPECT_EQ(logprobs["text_offset"], Json({0, 1, 2, 3}));
  EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
  EXPECT_EQ(logprobs["top_logprobs"][2], Json({{"F", -0.25}}));
}

TEST_F(OpenAiAnswerTest, ClientThatLeavesCancelsAllItsRequests) {
  const auto writer =
      Post("/v1/completions", {{"prompt", Json::array({"A", "B"})}, {"stream", true}});
  writer->close();
  EXPECT_THAT(engine_.cancelled, ::testing::ElementsAre(1, 2));
  const std::string before = writer->body;
  engine_.Start(0);
  engine_.Text(0, "x");
  engine_.Fail(0, MakeError(ErrorCode::kCancelled, "cancelled"));
  EXPECT_EQ(writer->body, before);
}

TEST_F(OpenAiAnswerTest, ErrorsBeforeAndInAStream) {
  Json body = Chat();
  for (const bool stream : {false, true}) {
    body["stream"] = stream;
    engine_.refusal = MakeError(ErrorCode::kResourceExhausted, "512 requests wait");
    const auto refused = Post("/v1/chat/completions", body);
    EXPECT_EQ(refused->status, 429);
    EXPECT_EQ(refused->headers.count("Retry-After"), 1U);
    EXPECT_EQ(refused->Body()["error"]["type"], "rate_limit_error");
  }
  engine_.refusal = MakeError(ErrorCode::kCancelled, "draining");
  EXPECT_EQ(Post("/v1/chat/completions", body)->status, 503);
  engine_.refusal.reset();

  const auto writer = Post("/v1/chat/completions", body);
  engine_.Start(0);
  engine_.Text(0, "half");
  engine_.Fail(0, MakeError(ErrorCode::kInternal, "broken"));
  EXPECT_EQ(writer->Events().back()["error"]["message"], "broken");
  EXPECT_TRUE(writer->ended);
  EXPECT_EQ(writer->body.find("[DONE]"), std::string::npos);
}

TEST_F(OpenAiAnswerTest, PromptThatIsTooLongNamesBothNumbers) {
  const auto writer = Post("/v1/completions", {{"prompt", std::string(600, 'a')}});
  EXPECT_EQ(writer->status, 400);
  const Json error = writer->Body()["error"];
  EXPECT_EQ(error["n_prompt"], 600);
  EXPECT_EQ(error["n_ctx"], 512);
  EXPECT_EQ(error["code"], "context_length_exceeded");
}

TEST_F(OpenAiAnswerTest, NothingRunsWhileTheModelLoads) {
  context_.SetEngine(nullptr);
  const auto writer = Post("/v1/chat/completions", Chat());
  EXPECT_EQ(writer->status, 503);
  EXPECT_EQ(Call("GET", "/health")->Body()["status"], "loading model");
  EXPECT_EQ(Call("GET", "/health")->status, 503);
}

TEST_F(OpenAiAnswerTest, ModelNames) {
  for (const char* name : {"tiny", "alias", "tiny:latest", ""}) {
    Json body = Chat();
    body["model"] = name;
    const auto writer = Post("/v1/chat/completions", body);
    EXPECT_EQ(writer->status, 0) << name;  // no answer yet
  }
  EXPECT_EQ(Call("GET", "/v1/models/alias")->Body()["id"], "alias");
  const auto unknown = Call("GET", "/v1/models/nothing");
  EXPECT_EQ(unknown->status, 404);
  EXPECT_EQ(unknown->Body()["error"]["code"], "model_not_found");
  // What one request may have.
  const Json model = Call("GET", "/v1/models/alias")->Body();
  EXPECT_EQ(model["max_model_len"], 512);
  EXPECT_EQ(model["meta"]["n_ctx"], 512);
  EXPECT_EQ(Call("GET", "/v1/models")->Body()["data"].size(), 2U);
}

class NoTemplateTest : public ApiTest {
 protected:
  NoTemplateTest() : ApiTest("") {}
};

TEST_F(NoTemplateTest, ChatIsRefused) {
  const auto writer =
      Call("POST", "/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}]})");
  EXPECT_EQ(writer->status, 400);
  EXPECT_THAT(writer->body, ::testing::HasSubstr("no chat template"));
}

class RaisingTest : public ApiTest {
 protected:
  RaisingTest() : ApiTest("{{ raise_exception('roles must alternate') }}") {}
};

TEST_F(RaisingTest, ATemplatesOwnErrorIsTheClients) {
  const auto writer =
      Call("POST", "/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}]})");
  EXPECT_EQ(writer->status, 400);
  EXPECT_THAT(writer->body, ::testing::HasSubstr("roles must alternate"));
}

class ThinkingTest : public ApiTest {
 protected:
  ThinkingTest() : ApiTest("{{ messages[0].content }}{# <think> #}") {}
};

TEST_F(ThinkingTest, ReasoningHasItsOwnFieldUnlessNoneIsWanted) {
  const auto apart =
      Call("POST", "/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}]})");
  engine_.Answer(0, {"<think>a</th", "ink>b"});
  const Json message = apart->Body()["choices"][0]["message"];
  EXPECT_EQ(message["reasoning_content"], "a");
  EXPECT_EQ(message["content"], "b");
  const auto plain =
      Call("POST", "/v1/chat/completions",
           R"({"messages":[{"role":"user","content":"x"}],"reasoning_format":"none"})");
  engine_.Answer(1, {"<think>a</th", "ink>b"});
  EXPECT_EQ(plain->Body()["choices"][0]["message"]["content"], "<think>a</think>b");
}

}  // namespace
}  // namespace tenon::testing
