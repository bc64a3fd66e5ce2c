// Responses, Anthropic, Ollama, llama-server's and vLLM's small endpoints, embeddings, metrics.
#include <gmock/gmock.h>

#include "api/fake_server.h"
#include "base/log.h"
#include "frontend/server/api/api_error.h"
#include "frontend/server/api/base64.h"
#include "frontend/server/api/routes.h"

namespace tenon::testing {
namespace {

class OtherApisTest : public ApiTest {
 protected:
  static std::vector<std::string> Types(const FakeWriter& writer) {
    std::vector<std::string> types;
    for (const Json& event : writer.Events())
      types.push_back(event["type"]);
    return types;
  }
};

TEST_F(OtherApisTest, ResponsesStreamHasTheTypedEvents) {
  const auto writer = Post("/v1/responses", {{"input", "hi"}, {"stream", true}});
  engine_.Answer(0, {"Hel", "lo"});
  EXPECT_THAT(Types(*writer),
              ::testing::ElementsAre("response.created", "response.in_progress",
                                     "response.output_item.added", "response.content_part.added",
                                     "response.output_text.delta", "response.output_text.delta",
                                     "response.output_text.done", "response.content_part.done",
                                     "response.output_item.done", "response.completed"));
  const auto events = writer->Events();
  for (size_t i = 0; i < events.size(); ++i)
    EXPECT_EQ(events[i]["sequence_number"], i);
  const Json response = events.back()["response"];
  EXPECT_EQ(response["output"][0]["content"][0]["text"], "Hello");
  EXPECT_EQ(response["usage"]["output_tokens"], 7);
  EXPECT_THAT(writer->body, ::testing::StartsWith("event: response.created\n"));
}

TEST_F(OtherApisTest, ResponsesTakeItemsAndInstructions) {
  const auto writer = Post("/v1/responses", Json::parse(R"({"instructions":"s","input":[
    {"role":"user","content":[{"type":"input_text","text":"a"}]},
    {"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
    {"type":"function_call_output","call_id":"c","output":"42"}]})"));
  ASSERT_EQ(engine_.submitted.size(), 1U) << writer->body;
  EXPECT_EQ(model_->tokenizer().Decode(engine_.submitted[0].request.prompt, SpecialText::kParse),
            "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
            "<|im_start|>assistant\n<|im_end|>\n<|im_start|>tool\n42<|im_end|>\n"
            "<|im_start|>assistant\n");
  engine_.Start(0);
  engine_.Text(0, "x");
  engine_.Done(0, FinishReason::kLength);
  engine_.Finish(0);
  EXPECT_EQ(writer->Body()["status"], "incomplete");
  EXPECT_EQ(writer->Body()["output"][0]["content"][0]["text"], "x");
  EXPECT_EQ(Post("/v1/responses", {{"input", "x"}, {"previous_response_id", "r"}})->status, 400);
}

TEST_F(OtherApisTest, AnthropicStream) {
  const auto writer = Post("/v1/messages", Json::parse(R"({"model":"tiny","max_tokens":5,
    "stream":true,"system":[{"type":"text","text":"s"}],
    "messages":[{"role":"user","content":"hi"}]})"));
  EXPECT_THAT(writer->ping, ::testing::HasSubstr("event: ping"));
  engine_.Answer(0, {"Hel", "lo"});
  EXPECT_THAT(Types(*writer),
              ::testing::ElementsAre("message_start", "content_block_start", "content_block_delta",
                                     "content_block_delta", "content_block_stop", "message_delta",
                                     "message_stop"));
  const auto events = writer->Events();
  EXPECT_EQ(events[2]["delta"]["text"], "Hel");
  EXPECT_EQ(events[5]["delta"]["stop_reason"], "end_turn");
  EXPECT_EQ(events[5]["usage"]["output_tokens"], 7);
  EXPECT_EQ(engine_.submitted[0].request.max_tokens, 5);
}

TEST_F(OtherApisTest, AnthropicToolUseAndResults) {
  const auto writer = Post("/v1/messages", Json::parse(R"({"max_tokens":5,
    "tools":[{"name":"f","input_schema":{"type":"object"}}],
    "messages":[{"role":"user","content":"q"},
      {"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"a":1}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"42"}]}]})"));
  ASSERT_EQ(engine_.submitted.size(), 1U) << writer->body;
  EXPECT_THAT(model_->tokenizer().Decode(engine_.submitted[0].request.prompt, SpecialText::kParse),
              ::testing::HasSubstr("<|im_start|>tool\n42<|im_end|>\n["));
  engine_.Answer(0, {"<tool_call>{\"name\":\"f\",\"arguments\":{\"b\":2}}</tool_call>"});
  const Json body = writer->Body();
  EXPECT_EQ(body["stop_reason"], "tool_use");
  EXPECT_EQ(body["content"][0]["type"], "tool_use");
  EXPECT_EQ(body["content"][0]["input"], Json({{"b", 2}}));
}

TEST_F(OtherApisTest, AnthropicOneToolUseOnly) {
  const auto post = [&](const char* choice) {
    return Post("/v1/messages", Json::parse(R"({"max_tokens":5,"tools":[{"name":"f"}],
                "messages":[{"role":"user","content":"q"}],"tool_choice":)" +
                                            std::string(choice) + "}"));
  };
  const auto writer = post(R"({"type":"auto","disable_parallel_tool_use":true})");
  engine_.Answer(
      0, {"<tool_call>{\"name\":\"f\"}</tool_call><tool_call>{\"name\":\"f\"}</tool_call>"});
  EXPECT_EQ(writer->Body()["content"].size(), 1U);
  EXPECT_EQ(post(R"({"type":"auto","what":1})")->Body()["error"]["param"], "tool_choice.what");
  EXPECT_EQ(post(R"({"type":"auto","disable_parallel_tool_use":"x"})")->status, 400);
  EXPECT_EQ(post(R"({"type":5})")->Body()["error"]["param"], "tool_choice.type");
}

TEST_F(OtherApisTest, AnthropicErrorsHaveItsShape) {
  const auto missing = Post("/v1/messages", Json::parse(R"({"messages":[]})"));
  EXPECT_EQ(missing->status, 400);
  EXPECT_EQ(missing->Body()["type"], "error");
  EXPECT_EQ(missing->Body()["error"]["type"], "invalid_request_error");
  engine_.refusal = MakeError(ErrorCode::kResourceExhausted, "full");
  const auto full = Post("/v1/messages", Json::parse(R"({"max_tokens":5,
    "messages":[{"role":"user","content":"q"}]})"));
  EXPECT_EQ(full->status, 429);
  EXPECT_EQ(full->Body()["error"]["type"], "rate_limit_error");
}

TEST_F(OtherApisTest, AnthropicCountsTokens) {
  const Json body = Json::parse(R"({"messages":[{"role":"user","content":"hi"}]})");
  const Json count = Post("/v1/messages/count_tokens", body)->Body()["input_tokens"];
  Post("/v1/chat/completions", body);
  EXPECT_EQ(count, engine_.submitted[0].request.prompt.size());
}

TEST_F(OtherApisTest, OllamaChatStreamsLinesByDefault) {
  const auto writer = Post("/api/chat", Json::parse(R"({"model":"tiny:latest",
    "options":{"num_predict":3,"seed":7,"num_gpu":1},"keep_alive":"5m",
    "messages":[{"role":"user","content":"hi"}]})"));
  EXPECT_EQ(writer->content_type, "application/x-ndjson");
  engine_.Answer(0, {"Hel", "lo"});
  const auto lines = writer->Events();
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[1]["message"]["content"], "lo");
  EXPECT_EQ(lines[1]["done"], false);
  EXPECT_EQ(lines[2]["done"], true);
  EXPECT_EQ(lines[2]["done_reason"], "stop");
  EXPECT_EQ(lines[2]["eval_count"], 7);
  EXPECT_EQ(engine_.submitted[0].request.max_tokens, 3);
  EXPECT_EQ(engine_.submitted[0].request.sampling.seed, 7U);
}

TEST_F(OtherApisTest, OllamaGenerate) {
  const auto writer = Post("/api/generate",
                           {{"model", "tiny"}, {"prompt", "AB"}, {"raw", true}, {"stream", false}});
  EXPECT_EQ(engine_.submitted[0].request.prompt, (std::vector<int32_t>{65, 66}));
  engine_.Answer(0, {"x"});
  EXPECT_EQ(writer->Body()["response"], "x");
  const auto unknown = Post("/api/generate", {{"model", "other"}, {"prompt", "x"}});
  EXPECT_EQ(unknown->status, 404);
  EXPECT_TRUE(unknown->Body()["error"].is_string());
  EXPECT_EQ(Post("/api/chat", Json::parse(R"({"model":"tiny","messages":[
    {"role":"user","content":"x","images":["aaaa"]}]})"))
                ->status,
            400);
  EXPECT_EQ(Post("/api/generate", Json::parse(R"({"model":"tiny","prompt":"x",
    "options":{"num_ctx":100000}})"))
                ->status,
            400);
}

TEST_F(OtherApisTest, OllamaNamesTheFieldsOfItsOptions) {
  const auto refused = Post(
      "/api/generate", {{"model", "tiny"}, {"prompt", "x"}, {"options", {{"repeat_penalty", 0}}}});
  EXPECT_EQ(refused->status, 400);
  EXPECT_THAT(refused->Body()["error"].get<std::string>(),
              ::testing::StartsWith("options.repeat_penalty: found 0,"));
}

TEST_F(OtherApisTest, OllamaSaysTheFilesOwnFormat) {
  const auto format = [this] {
    EXPECT_EQ(Call("GET", "/api/tags")->Body()["models"][0]["details"]["format"],
              Call("GET", "/api/ps")->Body()["models"][0]["details"]["format"]);
    return Post("/api/show", {{"model", "tiny"}})->Body()["details"]["format"];
  };
  EXPECT_EQ(format(), "gguf");
  const_cast<ModelSource&>(model_->source()).format = "safetensors";
  EXPECT_EQ(format(), "safetensors");
}

TEST_F(OtherApisTest, WhatIsMissingIsNotAlwaysTheModel) {
  for (const auto& answer :
       {Call("GET", "/v1/modules"), Post("/v1/modules", {{"module", "ngram"}, {"state", "on"}})}) {
    EXPECT_EQ(answer->status, 404);
    EXPECT_EQ(answer->Body()["error"]["code"], "not_found");
  }
  const auto code = [](const char* where) {
    return ToApiError(MakeError(ErrorCode::kNotFound, "missing", where)).code;
  };
  EXPECT_EQ(code("model"), "model_not_found");
  EXPECT_EQ(code("modules.draft_model.model"), "model_not_found");
  EXPECT_EQ(code("id_slot"), "not_found");
}

class LineSink final : public LogSink {
 public:
  LineSink() { SetLogSink(this, LogLevel::kInfo); }
  ~LineSink() override { SetLogSink(nullptr, LogLevel::kError); }
  void Write(LogLevel, std::string_view message) override { last = message; }
  std::string last;
};

// One that never ran waited all the same.
TEST_F(OtherApisTest, AFailedRequestIsLoggedWithItsTimes) {
  LineSink sink;
  Post("/v1/completions", {{"prompt", "x"}});
  ServingEvent event;
  event.kind = ServingEvent::Kind::kError;
  event.error = MakeError(ErrorCode::kCancelled, "the engine is shutting down");
  event.timings.queue_s = 1.25;
  event.timings.total_s = 1.5;
  engine_.submitted.at(0).sink(std::move(event));
  const Json line = Json::parse(sink.last);
  EXPECT_EQ(line["queue_ms"], 1250);
  EXPECT_EQ(line["total_ms"], 1500);
}

TEST_F(OtherApisTest, OllamaLoadsByAnEmptyRequest) {
  const Json generate = Post("/api/generate", {{"model", "tiny"}})->Body();
  EXPECT_EQ(generate["done_reason"], "load");
  EXPECT_EQ(generate["response"], "");
  EXPECT_EQ(generate["done"], true);
  const Json chat =
      Post("/api/chat", {{"model", "tiny:latest"}, {"messages", Json::array()}, {"keep_alive", 0}})
          ->Body();
  EXPECT_EQ(chat["done_reason"], "unload");
  EXPECT_EQ(chat["message"]["content"], "");
  EXPECT_EQ(Post("/api/generate", {{"model", "other"}})->status, 404);
  EXPECT_EQ(Post("/api/generate", Json::object())->status, 400);
  EXPECT_EQ(Post("/api/generate", {{"model", "tiny"}, {"prompt", 5}})->status, 400);
  EXPECT_TRUE(engine_.submitted.empty());
}

TEST_F(OtherApisTest, EmbeddingsAreUnitVectorsInOrder) {
  const auto writer = Post("/v1/embeddings", {{"input", Json::array({"A", "BC"})}});
  ASSERT_EQ(engine_.embeddings.size(), 2U);
  engine_.embeddings[1].sink(std::vector<float>{0.0F, 5.0F});
  EXPECT_FALSE(writer->ended);
  engine_.embeddings[0].sink(std::vector<float>{3.0F, 4.0F});
  const Json body = writer->Body();
  EXPECT_NEAR(body["data"][0]["embedding"][0].get<double>(), 0.6, 1e-6);
  EXPECT_NEAR(body["data"][1]["embedding"][1].get<double>(), 1.0, 1e-6);
  EXPECT_EQ(body["usage"]["prompt_tokens"], 3);
}

TEST_F(OtherApisTest, EmbeddingsAsBase64AndCut) {
  const auto writer =
      Post("/v1/embeddings", {{"input", "A"}, {"encoding_format", "base64"}, {"dimensions", 1}});
  engine_.embeddings[0].sink(std::vector<float>{2.0F, 4.0F});
  // 1.0f is 00 00 80 3F.
  EXPECT_EQ(writer->Body()["data"][0]["embedding"], "AACAPw==");
  EXPECT_EQ(Post("/v1/embeddings", {{"input", "A"}, {"dimensions", 33}})->status, 400);
  EXPECT_EQ(Post("/v1/embeddings", {{"input", std::string(600, 'a')}})->Body()["error"]["n_prompt"],
            600);
}

TEST_F(OtherApisTest, EmbeddingsHaveATenantAndADeadline) {
  Post("/v1/embeddings", {{"input", "A"}});
  EXPECT_EQ(engine_.embeddings[0].request.deadline, std::chrono::steady_clock::time_point::max());
  ApiOptions options;
  options.model_names = {"tiny"};
  options.request_timeout = std::chrono::seconds(5);
  ApiContext limited(options);
  limited.SetEngine(&engine_);
  Router router;
  AddApiRoutes(limited, router);
  routes_ = std::make_unique<RouteTable>(std::move(router));
  key_name_ = "key1";
  const auto writer = Post("/v1/embeddings", {{"input", "A"}});
  EXPECT_EQ(engine_.embeddings[1].request.tenant, "key1");
  EXPECT_LT(engine_.embeddings[1].request.deadline,
            std::chrono::steady_clock::now() + std::chrono::seconds(6));
  engine_.embeddings[1].sink(MakeError(ErrorCode::kCancelled, "the deadline has passed"));
  EXPECT_EQ(writer->status, 504);
  Post("/v1/completions", {{"prompt", "A"}});
  EXPECT_EQ(engine_.submitted[0].request.tenant, "key1");
  EXPECT_LT(engine_.submitted[0].request.deadline,
            std::chrono::steady_clock::now() + std::chrono::seconds(6));
}

// More inputs than places in the queue are no problem: they follow each other.
TEST_F(OtherApisTest, ManyInputsAreSubmittedLittleByLittle) {
  const auto writer = Post("/v1/embeddings", {{"input", std::vector<std::string>(50, "A")}});
  EXPECT_EQ(engine_.embeddings.size(), 16U);
  for (size_t i = 0; i < engine_.embeddings.size(); ++i) {
    const auto sink = engine_.embeddings[i].sink;
    sink(std::vector<float>{1.0F});
  }
  EXPECT_EQ(writer->Body()["data"].size(), 50U);
}

TEST_F(OtherApisTest, RerankOrdersByCosine) {
  const auto writer = Post("/v1/rerank", {{"query", "q"},
                                          {"documents", Json::array({"a", {{"text", "b"}}, "c"})},
                                          {"top_n", 2},
                                          {"return_documents", true}});
  engine_.embeddings[0].sink(std::vector<float>{1.0F, 0.0F});
  engine_.embeddings[1].sink(std::vector<float>{0.0F, 1.0F});
  engine_.embeddings[2].sink(std::vector<float>{2.0F, 0.0F});
  engine_.embeddings[3].sink(std::vector<float>{1.0F, 1.0F});
  const Json results = writer->Body()["results"];
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0]["index"], 1);
  EXPECT_EQ(results[0]["document"]["text"], "b");
  EXPECT_NEAR(results[1]["relevance_score"].get<double>(), 0.70710678, 1e-5);
}

TEST_F(OtherApisTest, TokensAndBack) {
  EXPECT_EQ(Post("/tokenize", {{"content", "A<|im_end|>"}})->Body()["tokens"], Json({65, 257}));
  EXPECT_EQ(Post("/tokenize", {{"content", "<|im"}, {"parse_special", false}})->Body()["tokens"],
            Json({'<', '|', 'i', 'm'}));
  const Json pieces =
      Post("/tokenize", {{"content", "é"}, {"with_pieces", true}})->Body()["tokens"];
  EXPECT_EQ(pieces[0], Json({{"id", 0xC3}, {"piece", Json::array({0xC3})}}));
  EXPECT_EQ(Post("/detokenize", {{"tokens", {0xC3, 0xA9}}})->Body()["content"], "é");
  EXPECT_EQ(Call("POST", "/tokenize", "{\"content\": \"\xff\"}")->status, 400);
  EXPECT_EQ(Post("/detokenize", {{"tokens", {65, 259}}})->Body()["error"]["param"], "tokens[1]");
  EXPECT_EQ(Post("/detokenize", {{"tokens", {-1}}})->Body()["error"]["param"], "tokens[0]");
}

TEST_F(OtherApisTest, TokensAsVllmHasThem) {
  const Json answer = Post("/tokenize", {{"prompt", "A"}, {"add_special_tokens", false}})->Body();
  EXPECT_EQ(answer["tokens"], Json({65}));
  EXPECT_EQ(answer["count"], 1);
  EXPECT_GT(answer["max_model_len"].get<int64_t>(), 0);
  EXPECT_EQ(Post("/tokenize", {{"prompt", "A"}, {"content", "A"}})->status, 400);
  EXPECT_EQ(Post("/tokenize", Json::object())->status, 400);
  EXPECT_EQ(Post("/detokenize", {{"tokens", {65}}})->Body()["prompt"], "A");
  const Json info = Call("GET", "/tokenizer_info")->Body();
  EXPECT_EQ(info["eos_token"], "<|im_end|>");
  EXPECT_TRUE(info["chat_template"].is_string());
}

TEST_F(OtherApisTest, HealthFollowsTheEngine) {
  EXPECT_EQ(Call("GET", "/health")->Body(), Json({{"status", "ok"}}));
  engine_.current_health = Health::kStuck;
  EXPECT_EQ(Call("GET", "/v1/health")->status, 503);
  engine_.current_health = Health::kDraining;
  EXPECT_EQ(Call("GET", "/health")->status, 503);
}

TEST_F(OtherApisTest, MetricsCountWhatHappened) {
  engine_.current_stats.completion_tokens = 11;
  engine_.current_stats.uptime_s = 2.0;
  engine_.current_stats.busy_s = 0.5;
  RequestTimings timings;
  timings.total_s = 0.3;
  context_.metrics().OnEnd("stop", timings, 3, 4);
  Post("/v1/chat/completions", Json::object());
  const std::string text = Call("GET", "/metrics")->body;
  for (const char* line :
       {"tenon_completion_tokens_total 11", "tenon_requests_total{outcome=\"stop\"} 1",
        "inference_latency_bucket{le=\"0.1\"} 0", "inference_latency_bucket{le=\"0.5\"} 1",
        "inference_latency_bucket{le=\"2\"} 1", "gpu_utilization 0.25",
        "tenon_http_requests_total{path=\"/v1/chat/completions\",status=\"400\"} 1"})
    EXPECT_THAT(text, ::testing::HasSubstr(line));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("vllm:")));
}

TEST(Metrics, AliasesOnRequest) {
  Metrics metrics("tiny", MetricsAliases::kOn);
  RequestTimings timings;
  timings.prefill_s = 0.5;
  timings.decode_s = 2.0;
  metrics.OnFirstToken(timings);
  metrics.OnEnd("length", timings, 40, 2);
  metrics.OnEnd("length", timings, 3, 1);
  const std::string text = metrics.Text(nullptr);
  EXPECT_THAT(text, ::testing::HasSubstr("vllm:num_requests_running{model_name=\"tiny\"} 0"));
  EXPECT_THAT(text,
              ::testing::HasSubstr(
                  "vllm:request_success_total{finished_reason=\"length\",model_name=\"tiny\"}"));
  for (const char* line :
       {"llamacpp:requests_processing 0", "llamacpp:requests_deferred 0",
        "llamacpp:n_tokens_max 42", "llamacpp:prompt_seconds_total 0.5",
        "llamacpp:tokens_predicted_seconds_total 4", "llamacpp:prompt_tokens_seconds 0",
        "llamacpp:predicted_tokens_seconds 0", "llamacpp:n_busy_slots_per_decode 0",
        "llamacpp:n_decode_total 0",
        "vllm:time_to_first_token_seconds_count{model_name=\"tiny\"} 1"})
    EXPECT_THAT(text, ::testing::HasSubstr(line));
}

TEST(Base64, Rfc4648Vectors) {
  const char* const vectors[][2] = {{"", ""},
                                    {"f", "Zg=="},
                                    {"fo", "Zm8="},
                                    {"foo", "Zm9v"},
                                    {"foob", "Zm9vYg=="},
                                    {"fooba", "Zm9vYmE="},
                                    {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors)
    EXPECT_EQ(EncodeBase64(bytes), text);
}

}  // namespace
}  // namespace tenon::testing
