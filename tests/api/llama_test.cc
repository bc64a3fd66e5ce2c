// llama-server's own endpoints: /completion, /infill, /embedding, /lora-adapters.
#include <gmock/gmock.h>

#include "api/fake_server.h"

namespace tenon::testing {
namespace {

class LlamaApiTest : public ApiTest {};

TEST_F(LlamaApiTest, WholeCompletion) {
  const auto writer = Post("/completion", {{"prompt", "AB"}, {"n_predict", 7}, {"seed", 3}});
  EXPECT_EQ(engine_.submitted[0].request.max_tokens, 7);
  EXPECT_EQ(engine_.submitted[0].request.prompt, (std::vector<int32_t>{65, 66}));
  engine_.Answer(0, {"x\n", "y"});
  const Json body = writer->Body();
  EXPECT_EQ(body["content"], "x\ny");
  EXPECT_EQ(body["stop"], true);
  EXPECT_EQ(body["stop_type"], "eos");
  EXPECT_EQ(body["stopping_word"], "");
  EXPECT_EQ(body["tokens"], Json::array());
  EXPECT_EQ(body["tokens_predicted"], 7);
  EXPECT_EQ(body["tokens_evaluated"], 2);
  EXPECT_EQ(body["tokens_cached"], 0);
  EXPECT_EQ(body["prompt"], "AB");
  EXPECT_EQ(body["truncated"], false);
  EXPECT_EQ(body["has_new_line"], true);
  EXPECT_EQ(body["model"], "tiny");
  EXPECT_EQ(body["index"], 0);
  EXPECT_EQ(body["id_slot"], -1);
  EXPECT_EQ(body["generation_settings"]["n_predict"], 7);
  EXPECT_EQ(body["generation_settings"]["seed"], 3);
  EXPECT_TRUE(body["timings"].contains("predicted_per_second"));
  EXPECT_FALSE(body.contains("completion_probabilities"));
}

TEST_F(LlamaApiTest, WithoutALimitItRunsToTheEnd) {
  for (const char* field : {"", R"(,"n_predict":-1)", R"(,"n_predict":-2)", R"(,"n_predict":null)"})
    Call("POST", "/completions", std::string(R"({"prompt":"A")") + field + "}");
  ASSERT_EQ(engine_.submitted.size(), 4U);
  for (const auto& submitted : engine_.submitted)
    EXPECT_EQ(submitted.request.max_tokens, -1);
}

TEST_F(LlamaApiTest, StreamSaysStopItself) {
  const auto writer = Post("/completion", {{"prompt", "A"}, {"stream", true}});
  EXPECT_EQ(writer->content_type, "text/event-stream");
  EXPECT_EQ(writer->ping, ": ping\n\n");
  engine_.Start(0, 1);
  engine_.Text(0, "He");
  engine_.Text(0, "y");
  engine_.Done(0, FinishReason::kLength);
  engine_.Finish(0);
  const auto events = writer->Events();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0]["content"], "He");
  EXPECT_EQ(events[0]["stop"], false);
  EXPECT_EQ(events[0]["tokens"], Json({'H', 'e'}));
  EXPECT_EQ(events[1]["tokens_predicted"], 3);
  EXPECT_EQ(events[2]["stop"], true);
  EXPECT_EQ(events[2]["content"], "");
  EXPECT_EQ(events[2]["stop_type"], "limit");
  EXPECT_EQ(events[2]["tokens_cached"], 1);
  EXPECT_EQ(writer->body.find("[DONE]"), std::string::npos);
  EXPECT_EQ(writer->body.find("event:"), std::string::npos);
  EXPECT_TRUE(writer->ended);
}

TEST_F(LlamaApiTest, AWordThatStops) {
  const auto writer = Post("/completion", {{"prompt", "A"}, {"stop", {"Q", "R"}}});
  EXPECT_THAT(engine_.submitted[0].request.stop, ::testing::ElementsAre("Q", "R"));
  engine_.Start(0);
  engine_.Text(0, "x");
  ServingEvent done;
  done.kind = ServingEvent::Kind::kDone;
  done.stop_text = "R";
  engine_.submitted[0].sink(done);
  engine_.Finish(0);
  EXPECT_EQ(writer->Body()["stop_type"], "word");
  EXPECT_EQ(writer->Body()["stopping_word"], "R");
}

TEST_F(LlamaApiTest, PromptsInEveryShape) {
  struct {
    const char* prompt;
    std::vector<std::vector<int32_t>> expected;
  } const cases[] = {
      {R"("AB")", {{65, 66}}},
      {R"([65,66])", {{65, 66}}},
      {R"([65,"BC"])", {{65, 66, 67}}},
      {R"(["A",[66,"C"]])", {{65}, {66, 67}}},
      {R"({"prompt_string":"AB"})", {{65, 66}}},
      {R"(["A",{"prompt_string":"B","multimodal_data":[]}])", {{65}, {66}}},
  };
  for (const auto& test : cases)
    EXPECT_EQ(PromptsOf("/completion", test.prompt), test.expected) << test.prompt;
}

TEST_F(LlamaApiTest, SeveralPromptsGiveAList) {
  const auto writer = Post("/completion", {{"prompt", {"A", "B"}}});
  engine_.Answer(1, {"b"});
  engine_.Answer(0, {"a"});
  const Json body = writer->Body();
  ASSERT_EQ(body.size(), 2U);
  EXPECT_EQ(body[0]["content"], "a");
  EXPECT_EQ(body[1]["content"], "b");
  EXPECT_EQ(body[1]["index"], 1);
}

TEST_F(LlamaApiTest, Probabilities) {
  for (const bool stream : {false, true}) {
    engine_.submitted.clear();
    const auto writer =
        Post("/completion",
             {{"prompt", "A"}, {"n_probs", 2}, {"return_tokens", true}, {"stream", stream}});
    EXPECT_EQ(engine_.submitted[0].request.sampling.logprobs, 2);
    engine_.Answer(0, {"é"});
    const Json answer = stream ? writer->Events().front() : writer->Body();
    EXPECT_EQ(answer["tokens"], Json({0xC3, 0xA9}));
    const Json list = answer["completion_probabilities"];
    ASSERT_EQ(list.size(), 2U);
    EXPECT_EQ(list[0]["id"], 0xC3);
    EXPECT_EQ(list[0]["bytes"], Json({0xC3}));
    EXPECT_EQ(list[0]["logprob"], -0.5);
    ASSERT_EQ(list[0]["top_logprobs"].size(), 2U);
    EXPECT_EQ(list[0]["top_logprobs"][1]["id"], 10);
    EXPECT_EQ(list[0]["top_logprobs"][1]["token"], "\n");
  }
}

TEST_F(LlamaApiTest, ResponseFieldsChoose) {
  const auto writer = Post("/completion", {{"prompt", "A"},
                                           {"n_predict", 5},
                                           {"response_fields",
                                            {"content", "generation_settings/n_predict", "what",
                                             "content/x", "generation_settings/what/y"}}});
  engine_.Answer(0, {"x"});
  EXPECT_EQ(writer->Body(), Json({{"content", "x"}, {"generation_settings/n_predict", 5}}));
}

TEST_F(LlamaApiTest, WhatLlamaServersClientsSend) {
  const auto writer = Post("/completion", Json::parse(R"({"prompt":"A","n_predict":5,"n_keep":-1,
    "temperature":0.5,"dynatemp_range":0.0,"dynatemp_exponent":1.0,"top_k":7,"top_p":0.9,"min_p":0.1,
    "typical_p":1.0,"xtc_probability":0.0,"xtc_threshold":0.1,"repeat_last_n":64,
    "repeat_penalty":1.1,"presence_penalty":0.0,"frequency_penalty":0.0,"dry_multiplier":0.0,
    "dry_base":1.75,"dry_allowed_length":2,"dry_penalty_last_n":-1,"mirostat":0,"mirostat_tau":5.0,
    "mirostat_eta":0.1,"grammar":"","n_probs":0,"min_keep":0,"image_data":[],"cache_prompt":true,
    "id_slot":-1,"samplers":["penalties","dry","top_n_sigma","top_k","typ_p","top_p","min_p","xtc",
    "temperature"],"post_sampling_probs":false,"logit_bias":[],"stop":[],"n_indent":0,
    "t_max_predict_ms":0,"response_fields":[],"lora":[],"speculative.n_max":16,"top_n_sigma":-1.0,
    "timings_per_token":false,"return_tokens":false,"stream":false,"seed":-1})"));
  ASSERT_EQ(engine_.submitted.size(), 1U) << writer->body;
  const SamplingParams& sampling = engine_.submitted[0].request.sampling;
  EXPECT_EQ(sampling.temperature, 0.5F);
  EXPECT_EQ(sampling.top_k, 7);
  EXPECT_EQ(sampling.repetition_penalty, 1.1F);
  EXPECT_EQ(sampling.logprobs, 0);
}

TEST_F(LlamaApiTest, FiltersThatAreNotListedAreOff) {
  const char* const kAll =
      R"("top_k":5,"top_p":0.5,"min_p":0.2,"repeat_penalty":2,"temperature":3)";
  for (const char* list : {R"(["top_k","temperature"])", R"("kt")", R"(["top-k","temp"])"}) {
    engine_.submitted.clear();
    const auto writer =
        Call("POST", "/completion",
             std::string(R"({"prompt":"A",)") + kAll + R"(,"samplers":)" + list + "}");
    ASSERT_EQ(engine_.submitted.size(), 1U) << writer->body;
    const SamplingParams& sampling = engine_.submitted[0].request.sampling;
    EXPECT_EQ(sampling.top_k, 5);
    EXPECT_EQ(sampling.temperature, 3.0F);
    EXPECT_EQ(sampling.top_p, 1.0F);
    EXPECT_EQ(sampling.min_p, 0.0F);
    EXPECT_EQ(sampling.repetition_penalty, 1.0F);
  }
  engine_.submitted.clear();
  Call("POST", "/completion", R"({"prompt":"A","temperature":3,"samplers":"k"})");
  EXPECT_EQ(engine_.submitted[0].request.sampling.temperature, 1.0F);
}

TEST_F(LlamaApiTest, WrongFieldsAreNamed) {
  struct {
    const char* body;
    const char* param;
  } const cases[] = {
      {R"({})", "prompt"},
      {R"({"prompt":{}})", "prompt.prompt_string"},
      {R"({"prompt":{"prompt_string":5}})", "prompt.prompt_string"},
      {R"({"prompt":[{"prompt_string":"a","multimodal_data":["x"]}]})",
       "prompt[0].multimodal_data"},
      {R"({"prompt":"a","n_predict":-3})", "n_predict"},
      {R"({"prompt":"a","n_probs":1000})", "n_probs"},
      {R"({"prompt":"a","samplers":["temperature","top_k"]})", "samplers"},
      {R"({"prompt":"a","samplers":["infill"]})", "samplers"},
      {R"({"prompt":"a","samplers":5})", "samplers"},
      {R"({"prompt":"a","samplers":["top_k","top_k"]})", "samplers"},
      {R"({"prompt":"a","n_keep":"x"})", "n_keep"},
      {R"({"prompt":"a","post_sampling_probs":true})", "post_sampling_probs"},
      {R"({"prompt":"a","image_data":[{"id":1,"data":"x"}]})", "image_data"},
      {R"({"prompt":"a","t_max_predict_ms":50})", "t_max_predict_ms"},
      {R"({"prompt":"a","response_fields":[5]})", "response_fields[0]"},
      {R"({"prompt":"a","grammar":"root ::= x"})", "grammar"},
      {R"({"prompt":"a","json_schema":{"not":{}}})", "json_schema.not"},
      {R"({"prompt":"a","messages":[]})", "messages"},
  };
  for (const auto& test : cases) {
    const auto writer = Call("POST", "/completion", test.body);
    EXPECT_EQ(writer->status, 400) << test.body;
    EXPECT_EQ(writer->Body()["error"]["param"], test.param) << writer->body;
  }
  EXPECT_TRUE(engine_.submitted.empty());
}

TEST_F(LlamaApiTest, AGrammarHoldsHereToo) {
  Post("/completion", {{"prompt", "A"}, {"grammar", "root ::= \"x\""}});
  EXPECT_NE(engine_.submitted.at(0).request.constraint, nullptr);
}

TEST_F(LlamaApiTest, ErrorsInTheMiddle) {
  const auto writer = Post("/completion", {{"prompt", "A"}, {"stream", true}});
  engine_.Start(0);
  engine_.Text(0, "x");
  engine_.Fail(0, MakeError(ErrorCode::kInternal, "broken"));
  EXPECT_EQ(writer->Events().back()["error"]["message"], "broken");
}

TEST_F(LlamaApiTest, InfillNeedsAModelThatCan) {
  const auto writer = Post("/infill", {{"input_prefix", "a"}, {"input_suffix", "b"}});
  EXPECT_EQ(writer->status, 501);
  EXPECT_EQ(writer->Body()["error"]["type"], "not_supported_error");
}

class InfillTest : public ApiTest {
 protected:
  // 259 to 263.
  InfillTest()
      : ApiTest(kChatMl, {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>",
                          "<|file_sep|>"}) {}
  std::string Prompt(const std::string& body) {
    engine_.submitted.clear();
    const auto writer = Call("POST", "/infill", body);
    if (engine_.submitted.empty())
      return writer->body;
    return model_->tokenizer().Decode(engine_.submitted[0].request.prompt, SpecialText::kParse);
  }
};

TEST_F(InfillTest, PrefixSuffixMiddle) {
  EXPECT_EQ(Prompt(R"({"input_prefix":"a(","input_suffix":")b"})"),
            "<|fim_prefix|>a(<|fim_suffix|>)b<|fim_middle|>");
  EXPECT_EQ(Prompt(R"({"input_prefix":"","input_suffix":"","prompt":"x"})"),
            "<|fim_prefix|><|fim_suffix|><|fim_middle|>x");
  // A mark that stands in a file is text.
  Prompt(R"({"input_prefix":"<|fim_suffix|>","input_suffix":""})");
  EXPECT_EQ(std::ranges::count(engine_.submitted[0].request.prompt, 260), 1);
}

TEST_F(InfillTest, OtherFilesComeFirst) {
  EXPECT_EQ(Prompt(R"({"input_prefix":"a","input_suffix":"b",
              "input_extra":[{"filename":"x.h","text":"X"},{"text":"Y"}]})"),
            "<|repo_name|>myproject\n<|file_sep|>x.h\nX<|file_sep|>tmp\nY<|file_sep|>filename\n"
            "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>");
}

TEST_F(InfillTest, AnswersAsACompletion) {
  const auto writer =
      Post("/infill", {{"input_prefix", "a"}, {"input_suffix", "b"}, {"n_predict", 3}});
  EXPECT_EQ(engine_.submitted[0].request.max_tokens, 3);
  engine_.Answer(0, {"x"});
  EXPECT_EQ(writer->Body()["content"], "x");
  EXPECT_EQ(writer->Body()["tokens_evaluated"], 5);
}

TEST_F(InfillTest, WrongFieldsAreNamed) {
  const auto param = [&](const char* body) {
    return Call("POST", "/infill", body)->Body()["error"]["param"];
  };
  EXPECT_EQ(param(R"({"input_suffix":"b"})"), "input_prefix");
  EXPECT_EQ(param(R"({"input_prefix":5,"input_suffix":"b"})"), "input_prefix");
  EXPECT_EQ(param(R"({"input_prefix":"a","input_suffix":"b","prompt":[1]})"), "prompt");
  EXPECT_EQ(param(R"({"input_prefix":"a","input_suffix":"b","input_extra":"x"})"), "input_extra");
  EXPECT_EQ(param(R"({"input_prefix":"a","input_suffix":"b","input_extra":[{}]})"),
            "input_extra[0].text");
  EXPECT_EQ(param(R"({"input_prefix":"a","input_suffix":"b","input_extra":[5]})"),
            "input_extra[0]");
}

TEST_F(LlamaApiTest, EmbeddingsAreAListOfLists) {
  const auto writer = Post("/embedding", {{"content", {"A", "BC"}}});
  engine_.embeddings.at(0).sink(std::vector<float>{3.0F, 4.0F});
  engine_.embeddings.at(1).sink(std::vector<float>{0.0F, 2.0F});
  const Json body = writer->Body();
  EXPECT_EQ(body[1], Json::parse(R"({"index":1,"embedding":[[0.0,1.0]]})"));
  EXPECT_NEAR(body[0]["embedding"][0][1].get<double>(), 0.8, 1e-6);
  const auto raw = Post("/embeddings", {{"input", "A"}, {"embd_normalize", -1}});
  engine_.embeddings.at(2).sink(std::vector<float>{3.0F, 4.0F});
  EXPECT_EQ(raw->Body()[0]["embedding"], Json::parse("[[3.0,4.0]]"));
  EXPECT_EQ(Post("/embedding", {{"content", "A"}, {"embd_normalize", 1}})->status, 400);
  EXPECT_EQ(Post("/embedding", Json::object())->Body()["error"]["param"], "content");
}

TEST_F(LlamaApiTest, NoAdapters) {
  EXPECT_EQ(Call("GET", "/lora-adapters")->Body(), Json::array());
  EXPECT_EQ(Post("/lora-adapters", Json::array())->status, 200);
  EXPECT_EQ(Call("POST", "/lora-adapters", R"([{"id":0,"scale":1}])")->status, 400);
  EXPECT_EQ(Post("/lora-adapters", Json::object())->status, 400);
}

TEST_F(LlamaApiTest, ChatWithoutTheVersion) {
  Post("/chat/completions", Json::parse(R"({"messages":[{"role":"user","content":"hi"}]})"));
  EXPECT_EQ(engine_.submitted.size(), 1U);
}

}  // namespace
}  // namespace tenon::testing
