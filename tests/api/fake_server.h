// The API's endpoints over an engine and a client that are played by the test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "frontend/server/api/api_context.h"
#include "frontend/server/api/json.h"
#include "frontend/server/http/route_table.h"
#include "frontend/serving/serving_engine.h"
#include "gguf/gguf_writer.h"

namespace tenon::testing {

// A model with one token for each byte, "<|im_start|>" (256) and "<|im_end|>" (257), a context of
// 512 and the given template; `controls` are further control tokens, from 259 on. Only its tables
// exist.
std::unique_ptr<Model> ByteModel(const std::string& chat_template,
                                 const std::vector<std::string>& controls = {});
inline constexpr const char* kChatMl =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
    "{% endfor %}{% if tools %}{{ tools | tojson }}<tool_call>{% endif %}{{ "
    "'<|im_start|>assistant\\n' }}";

// Keeps what was submitted; the test says what happens to it.
class FakeEngine final : public ServingEngine {
 public:
  explicit FakeEngine(const Model& model) : model_(model) {}

  struct Submitted {
    ServingRequest request;
    EventSink sink;
  };
  struct SubmittedEmbedding {
    EmbeddingRequest request;
    EmbeddingSink sink;
  };

  Result<RequestId> Submit(ServingRequest request, EventSink sink) override;
  void Cancel(RequestId id) override { cancelled.push_back(id); }
  Result<RequestId> SubmitEmbedding(EmbeddingRequest request, EmbeddingSink sink) override;
  void Drain(std::chrono::milliseconds) override {}
  ServingStats stats() const override { return current_stats; }
  Health health() const override { return current_health; }
  const Model& model() const override { return model_; }
  const ServingOptions& options() const override { return options_; }

  // Events of request `index`, in the order in which an engine gives them.
  void Start(size_t index, int64_t cached_tokens = 0);
  void Text(size_t index, const std::string& text, int32_t choice = 0);
  void Done(size_t index, FinishReason reason = FinishReason::kStop, int32_t choice = 0);
  void Finish(size_t index);
  void Fail(size_t index, Error error);
  // Start, the pieces as the text of choice 0, Done and Finish.
  void Answer(size_t index, const std::vector<std::string>& pieces);

  std::vector<Submitted> submitted;
  std::vector<SubmittedEmbedding> embeddings;
  std::vector<RequestId> cancelled;
  std::optional<Error> refusal;
  ServingStats current_stats;
  Health current_health = Health::kReady;

 private:
  void Send(size_t index, ServingEvent event);

  const Model& model_;
  ServingOptions options_;
};

// What a client has received.
class FakeWriter final : public ResponseWriter {
 public:
  void Send(HttpResponse response) override;
  void BeginStream(int status, std::string content_type, HttpHeaders headers) override;
  void Write(std::string chunk) override { body += chunk; }
  void End() override { ended = true; }
  void KeepAlive(std::string text, std::chrono::milliseconds) override { ping = std::move(text); }
  void OnClose(std::function<void()> callback) override { close = std::move(callback); }
  size_t backlog() const override { return 0; }

  // The data of each event or line; "[DONE]" is left out.
  std::vector<Json> Events() const;
  Json Body() const;

  int status = 0;
  std::string content_type;
  std::string body;
  std::string ping;
  HttpHeaders headers;
  bool ended = false;
  std::function<void()> close;
};

class ApiTest : public ::testing::Test {
 protected:
  explicit ApiTest(const std::string& chat_template = kChatMl,
                   const std::vector<std::string>& controls = {});

  std::shared_ptr<FakeWriter> Call(const std::string& method, const std::string& path,
                                   const std::string& body = {});
  std::shared_ptr<FakeWriter> Post(const std::string& path, const Json& body) {
    return Call("POST", path, DumpJson(body));
  }
  // What the engine gets of a body with nothing but this "prompt", which is JSON.
  std::vector<std::vector<int32_t>> PromptsOf(const std::string& path, const std::string& prompt);

  std::unique_ptr<Model> model_;
  FakeEngine engine_;
  ApiContext context_;
  std::unique_ptr<RouteTable> routes_;
  std::string key_name_;  // of the caller
};

}  // namespace tenon::testing
