// The gRPC server over an engine that the test plays; calls come through a socket as any client's.
#include "frontend/server/grpc/grpc_server.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "api/fake_server.h"
#include "tenon/v1/tenon.grpc.pb.h"

namespace tenon::testing {
namespace {

// For things that other threads will do.
constexpr std::chrono::seconds kPatience{30};

// A request's script runs within Submit: events may come before it has returned. Embeddings come
// from another thread. Requests that are not over are kept, as an engine does.
class ScriptedEngine final : public ServingEngine {
 public:
  using Script = std::function<void(const ServingRequest&, const EventSink&)>;

  explicit ScriptedEngine(const Model& model) : model_(model) {}
  ~ScriptedEngine() override {
    for (std::thread& thread : threads_)
      thread.join();
  }

  Result<RequestId> Submit(ServingRequest request, EventSink sink) override {
    if (refusal.has_value())
      return *refusal;
    last_request = request;
    if (script)
      script(request, sink);
    sinks_.push_back(std::move(sink));
    return RequestId{1};
  }
  void Cancel(RequestId) override {
    {
      const std::lock_guard lock(mutex_);
      cancelled_ = true;
    }
    changed_.notify_all();
  }
  Result<RequestId> SubmitEmbedding(EmbeddingRequest request, EmbeddingSink sink) override {
    if (refusal.has_value())
      return *refusal;
    if (holds_embeddings)
      embedding_sinks_.push_back(std::move(sink));
    else
      threads_.emplace_back([sink, size = static_cast<float>(request.tokens.size())] {
        sink(std::vector<float>{3.0F * size, 4.0F});
      });
    return RequestId{2};
  }
  void Drain(std::chrono::milliseconds) override {}
  ServingStats stats() const override { return {}; }
  Health health() const override { return Health::kReady; }
  const Model& model() const override { return model_; }
  const ServingOptions& options() const override { return options_; }

  bool WaitForCancel() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [this] { return cancelled_; });
  }

  Script script;  // set before a call
  std::optional<Error> refusal;
  bool holds_embeddings = false;
  ServingRequest last_request;

 private:
  const Model& model_;
  ServingOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool cancelled_ = false;
  std::vector<EventSink> sinks_;
  std::vector<EmbeddingSink> embedding_sinks_;
  std::vector<std::thread> threads_;
};

ServingEvent EventOf(ServingEvent::Kind kind) {
  ServingEvent event;
  event.kind = kind;
  return event;
}

ServingEvent TextEvent(std::string text) {
  ServingEvent event = EventOf(ServingEvent::Kind::kText);
  event.text = std::move(text);
  event.tokens = {65};
  return event;
}

void Answer(const EventSink& sink, const std::vector<std::string>& pieces) {
  ServingEvent started = EventOf(ServingEvent::Kind::kStarted);
  started.prompt_tokens = 5;
  started.cached_tokens = 2;
  sink(started);
  for (const std::string& piece : pieces)
    sink(TextEvent(piece));
  ServingEvent done = EventOf(ServingEvent::Kind::kDone);
  done.completion_tokens = 3;
  done.finish_reason = FinishReason::kLength;
  sink(done);
  ServingEvent finished = EventOf(ServingEvent::Kind::kFinished);
  finished.prompt_tokens = 5;
  finished.completion_tokens = 3;
  finished.timings.total_s = 0.5;
  sink(finished);
}

ApiOptions TestOptions() {
  ApiOptions options;
  options.model_names = {"tiny"};
  return options;
}

class GrpcServerTest : public ::testing::Test {
 protected:
  GrpcServerTest() : model_(ByteModel(kChatMl)), engine_(*model_), context_(TestOptions()) {
    context_.SetEngine(&engine_);
  }

  void Start(GrpcServerOptions options = {}) {
    auto server = GrpcServer::Start(context_, options);
    ASSERT_TRUE(server.ok()) << server.error().ToString();
    server_ = std::move(*server);
    const std::string address = "127.0.0.1:" + std::to_string(server_->port());
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    stub_ = v1::Tenon::NewStub(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  }

  grpc::Status Generate(const v1::GenerateRequest& request, std::vector<v1::AnswerEvent>& events) {
    grpc::ClientContext call;
    return Generate(call, request, events);
  }
  grpc::Status Generate(grpc::ClientContext& call, const v1::GenerateRequest& request,
                        std::vector<v1::AnswerEvent>& events) {
    const auto reader = stub_->Generate(&call, request);
    v1::AnswerEvent event;
    while (reader->Read(&event))
      events.push_back(event);
    return reader->Finish();
  }

  std::unique_ptr<Model> model_;
  ScriptedEngine engine_;
  ApiContext context_;
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<v1::Tenon::Stub> stub_;
};

v1::GenerateRequest Prompt(const std::string& text) {
  v1::GenerateRequest request;
  request.set_text(text);
  return request;
}

TEST_F(GrpcServerTest, EventsOfAnAnswer) {
  Start();
  engine_.script = [](const ServingRequest&, const EventSink& sink) {
    Answer(sink, {"Hi ", "you"});
  };
  std::vector<v1::AnswerEvent> events;
  const grpc::Status status = Generate(Prompt("abcde"), events);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(events.size(), 5U);
  EXPECT_EQ(events[0].started().model(), "tiny");
  EXPECT_EQ(events[0].started().prompt_tokens(), 5);
  EXPECT_EQ(events[0].started().cached_tokens(), 2);
  EXPECT_EQ(events[1].piece().text(), "Hi ");
  EXPECT_EQ(events[2].piece().text(), "you");
  EXPECT_EQ(events[2].piece().tokens(0), 65);
  EXPECT_EQ(events[3].choice_end().finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(events[3].choice_end().completion_tokens(), 3);
  EXPECT_EQ(events[4].finished().completion_tokens(), 3);
  EXPECT_DOUBLE_EQ(events[4].finished().timings().total_s(), 0.5);
}

TEST_F(GrpcServerTest, FieldsReachTheEngine) {
  Start();
  engine_.script = [](const ServingRequest&, const EventSink& sink) { Answer(sink, {}); };
  v1::GenerateRequest request;
  for (const int id : {1, 2, 3})
    request.mutable_tokens()->add_ids(id);
  v1::Sampling& sampling = *request.mutable_sampling();
  sampling.set_temperature(0.25F);
  sampling.set_top_k(7);
  sampling.set_seed(99);
  sampling.set_max_tokens(11);
  sampling.add_stop("END");
  (*sampling.mutable_logit_bias())[5] = -2.5F;
  sampling.set_ignore_eos(true);
  request.set_logprobs(2);
  std::vector<v1::AnswerEvent> events;
  ASSERT_TRUE(Generate(request, events).ok());
  const ServingRequest& got = engine_.last_request;
  EXPECT_EQ(got.prompt, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(got.sampling.temperature, 0.25F);
  EXPECT_EQ(got.sampling.top_k, 7);
  EXPECT_EQ(got.sampling.seed, 99U);
  EXPECT_EQ(got.sampling.logprobs, 2);
  EXPECT_EQ(got.max_tokens, 11);
  EXPECT_EQ(got.stop, std::vector<std::string>{"END"});
  ASSERT_EQ(got.sampling.logit_bias.size(), 1U);
  EXPECT_EQ(got.sampling.logit_bias[0].token, 5);
  EXPECT_EQ(got.sampling.logit_bias[0].bias, -2.5F);
  EXPECT_EQ(got.end_tokens, EndTokens::kIgnore);
  EXPECT_EQ(got.deadline, std::chrono::steady_clock::time_point::max());
}

TEST_F(GrpcServerTest, ChatUsesTheTemplateAndReadsToolCalls) {
  Start();
  engine_.script = [](const ServingRequest&, const EventSink& sink) {
    Answer(sink, {"<tool_call>{\"name\": \"add\", \"argu", "ments\": {\"a\": 1}}</tool_call>"});
  };
  v1::ChatRequest request;
  request.add_messages()->set_role("user");
  request.mutable_messages(0)->set_content("1+1?");
  request.add_tools()->set_name("add");
  (*request.mutable_tools(0)->mutable_parameters()->mutable_fields())["type"].set_string_value(
      "object");
  grpc::ClientContext call;
  const auto reader = stub_->Chat(&call, request);
  v1::AnswerEvent event;
  std::vector<v1::ToolCall> calls;
  while (reader->Read(&event))
    calls.insert(calls.end(), event.piece().tool_calls().begin(), event.piece().tool_calls().end());
  ASSERT_TRUE(reader->Finish().ok());
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].function().name(), "add");
  EXPECT_EQ(*ParseJson(calls[0].function().arguments()), Json({{"a", 1}}));
  const std::string prompt =
      model_->tokenizer().Decode(engine_.last_request.prompt, SpecialText::kParse);
  EXPECT_EQ(prompt.find("<|im_start|>user\n1+1?<|im_end|>"), 0U) << prompt;
  EXPECT_NE(prompt.find(R"("parameters": {"type": "object"})"), std::string::npos) << prompt;
}

TEST_F(GrpcServerTest, ErrorsHaveTheirCodes) {
  using grpc::StatusCode;
  GrpcServerOptions options;
  options.max_message_bytes = 10'000;
  Start(options);
  v1::GenerateRequest hot = Prompt("a");
  hot.mutable_sampling()->set_temperature(-1);
  v1::GenerateRequest other = Prompt("a");
  other.set_model("other");
  struct Case {
    v1::GenerateRequest request;
    std::optional<Error> refusal;
    StatusCode code;
    std::string message;
  };
  const Case cases[] = {
      {hot, {}, StatusCode::INVALID_ARGUMENT, "temperature"},
      {{}, {}, StatusCode::INVALID_ARGUMENT, "prompt"},
      {Prompt(std::string(600, 'a')), {}, StatusCode::INVALID_ARGUMENT, "512"},
      {Prompt(std::string(20'000, 'a')), {}, StatusCode::RESOURCE_EXHAUSTED, ""},
      {other, {}, StatusCode::NOT_FOUND, "other"},
      {Prompt("a"), MakeError(ErrorCode::kResourceExhausted, "full"),
       StatusCode::RESOURCE_EXHAUSTED, "full"},
      {Prompt("a"), MakeError(ErrorCode::kCancelled, "ending"), StatusCode::UNAVAILABLE, "ending"},
  };
  for (const Case& one : cases) {
    engine_.refusal = one.refusal;
    std::vector<v1::AnswerEvent> events;
    const grpc::Status status = Generate(one.request, events);
    EXPECT_EQ(status.error_code(), one.code) << status.error_message();
    EXPECT_NE(status.error_message().find(one.message), std::string::npos)
        << status.error_message();
    EXPECT_TRUE(events.empty());
  }
  context_.SetEngine(nullptr);
  std::vector<v1::AnswerEvent> events;
  EXPECT_EQ(Generate(Prompt("a"), events).error_code(), StatusCode::UNAVAILABLE);
}

TEST_F(GrpcServerTest, KeysAreAskedFor) {
  GrpcServerOptions options;
  options.api_keys = {{"first", "s3cret"}};
  Start(options);
  engine_.script = [](const ServingRequest&, const EventSink& sink) { Answer(sink, {}); };
  for (const auto& [value, code] : {std::pair{"", grpc::StatusCode::UNAUTHENTICATED},
                                    std::pair{"Bearer s3cre", grpc::StatusCode::UNAUTHENTICATED},
                                    std::pair{"Bearer s3cret", grpc::StatusCode::OK}}) {
    grpc::ClientContext call;
    if (*value != '\0')
      call.AddMetadata("authorization", value);
    std::vector<v1::AnswerEvent> events;
    EXPECT_EQ(Generate(call, Prompt("a"), events).error_code(), code) << value;
    grpc::ClientContext unary;
    if (*value != '\0')
      unary.AddMetadata("authorization", value);
    v1::ModelsResponse models;
    EXPECT_EQ(stub_->Models(&unary, {}, &models).error_code(), code) << value;
  }
  EXPECT_EQ(engine_.last_request.tenant, "first");
}

TEST_F(GrpcServerTest, ADeadlineStopsTheWork) {
  Start();
  grpc::ClientContext call;
  call.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  std::vector<v1::AnswerEvent> events;
  EXPECT_EQ(Generate(call, Prompt("a"), events).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(engine_.WaitForCancel());
  // What is left of it reaches the server with the request, so its end there is as much later as
  // the way took.
  EXPECT_LT(engine_.last_request.deadline,
            std::chrono::steady_clock::now() + std::chrono::milliseconds(150));
}

TEST_F(GrpcServerTest, ACancelledEmbeddingStopsTheWork) {
  Start();
  engine_.holds_embeddings = true;
  grpc::ClientContext call;
  call.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  v1::EmbedRequest request;
  request.add_inputs()->set_text("a");
  v1::EmbedResponse response;
  EXPECT_EQ(stub_->Embed(&call, request, &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(engine_.WaitForCancel());
}

// The engine's thread comes back at once from a client that does not read, whose call then ends.
TEST_F(GrpcServerTest, ASlowReaderLosesTheCall) {
  constexpr int kPieces = 64;
  const std::string piece(1 << 20, 'x');  // sockets and flow control hold a few of them
  GrpcServerOptions options;
  options.max_backlog_bytes = 4 << 20;
  Start(options);
  engine_.script = [&](const ServingRequest&, const EventSink& sink) {
    sink(EventOf(ServingEvent::Kind::kStarted));
    for (int i = 0; i < kPieces; ++i)
      sink(TextEvent(piece));
  };
  grpc::ClientContext call;
  const auto reader = stub_->Generate(&call, Prompt("a"));
  ASSERT_TRUE(engine_.WaitForCancel());
  v1::AnswerEvent event;
  int pieces = 0;
  while (reader->Read(&event))
    pieces += event.has_piece() ? 1 : 0;
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_LT(pieces, kPieces);
}

TEST_F(GrpcServerTest, EmbeddingsAreUnitVectorsInOrder) {
  Start();
  v1::EmbedRequest request;
  request.add_inputs()->set_text("a");
  request.add_inputs()->mutable_tokens()->add_ids(1);
  request.mutable_inputs(1)->mutable_tokens()->add_ids(2);
  grpc::ClientContext call;
  v1::EmbedResponse response;
  ASSERT_TRUE(stub_->Embed(&call, request, &response).ok());
  ASSERT_EQ(response.embeddings_size(), 2);
  EXPECT_NEAR(response.embeddings(0).values(0), 0.6F, 1e-6F);  // (3, 4) / 5
  EXPECT_NEAR(response.embeddings(0).values(1), 0.8F, 1e-6F);
  EXPECT_NEAR(response.embeddings(1).values(0), 6.0F / std::sqrt(52.0F), 1e-6F);  // (6, 4)
  EXPECT_EQ(response.prompt_tokens(), 3);
}

TEST_F(GrpcServerTest, TextThatIsCutInACharacterIsStillValid) {
  Start();
  grpc::ClientContext first;
  v1::TokenizeRequest text;
  text.set_text("é!");
  v1::TokenizeResponse tokens;
  ASSERT_TRUE(stub_->Tokenize(&first, text, &tokens).ok());
  ASSERT_EQ(tokens.tokens_size(), 3);
  EXPECT_EQ(tokens.pieces(0) + tokens.pieces(1) + tokens.pieces(2), "é!");
  v1::DetokenizeRequest back;
  back.add_tokens(tokens.tokens(0));
  back.add_tokens(tokens.tokens(2));
  grpc::ClientContext second;
  v1::DetokenizeResponse answer;
  ASSERT_TRUE(stub_->Detokenize(&second, back, &answer).ok());
  EXPECT_EQ(answer.text(), "\xEF\xBF\xBD!");
  back.add_tokens(-1);
  grpc::ClientContext third;
  EXPECT_EQ(stub_->Detokenize(&third, back, &answer).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(GrpcServerTest, ATakenPortIsAnError) {
  Start();
  GrpcServerOptions options;
  options.port = server_->port();
  const auto second = GrpcServer::Start(context_, options);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kIo);
  EXPECT_NE(second.error().message.find(std::to_string(options.port)), std::string::npos);
}

TEST_F(GrpcServerTest, StopEndsOpenCalls) {
  Start();
  grpc::ClientContext call;
  const auto reader = stub_->Generate(&call, Prompt("a"));
  server_->Stop(std::chrono::milliseconds(0));
  v1::AnswerEvent event;
  EXPECT_FALSE(reader->Read(&event));
  EXPECT_FALSE(reader->Finish().ok());
}

}  // namespace
}  // namespace tenon::testing
