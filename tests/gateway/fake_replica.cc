#include "gateway/fake_replica.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace tenon::test {

FakeReplica::FakeReplica(std::string model, std::string key)
    : model_(std::move(model)), key_(std::move(key)) {
  Restart();
}

FakeReplica::~FakeReplica() {
  Kill();
  for (std::thread& stream : streams_)
    stream.join();
}

void FakeReplica::Restart() {
  HttpServerOptions options;
  options.port = port_;
  if (!key_.empty())
    options.api_keys = {{"gateway", key_}};
  auto server = HttpServer::Start(options, MakeRouter());
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  server_ = *std::move(server);
  port_ = server_->port();
}

void FakeReplica::Kill() {
  server_.reset();
}

std::string FakeReplica::url() const {
  return "http://127.0.0.1:" + std::to_string(port_);
}

Router FakeReplica::MakeRouter() {
  Router router;
  router.Add(
      "GET", "/health",
      [this](HttpRequest, Writer writer) {
        HttpResponse response;
        response.status = healthy ? 200 : 503;
        writer->Send(response);
      },
      Router::Access::kPublic);
  router.Add("GET", "/v1/models", [this](HttpRequest, Writer writer) {
    const nlohmann::json list = {
        {"object", "list"}, {"data", {{{"id", model_}, {"object", "model"}, {"owned_by", "x"}}}}};
    writer->Send(HttpResponse{200, "application/json", list.dump(), {}});
  });
  const auto answer = [this](HttpRequest request, const Writer& writer) {
    Answer(std::move(request), writer);
  };
  router.Add("POST", "/v1/chat/completions", answer);
  router.Add("POST", "/v1/messages", answer);
  router.Add("POST", "/api/chat", answer);
  return router;
}

void FakeReplica::Stream(const Writer& writer, int events) {
  writer->BeginStream(200, "text/event-stream", {});
  for (int i = 0; i < events; ++i) {
    writer->Write("data: " + std::to_string(port_) + "\n\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void FakeReplica::Answer(HttpRequest request, const Writer& writer) {
  ++requests_;
  const bool stream = request.body.find("\"stream\":true") != std::string::npos;
  const std::lock_guard lock(mutex_);
  last_request_ = std::move(request);
  switch (mode.load()) {
    case Mode::kAnswer:
      if (!stream)
        return writer->Send(HttpResponse{
            200, "application/json", std::to_string(port_), {{"X-Own", "1"}, {"Keep-Alive", "x"}}});
      streams_.emplace_back([this, writer] {
        Stream(writer, 8);
        writer->Write("data: [DONE]\n\n");
        writer->End();
      });
      return;
    case Mode::kHold:
      writer->OnClose([this] { ++clients_gone_; });
      held_.push_back(writer);
      held_changed_.notify_all();
      return;
    case Mode::kBusy:
      return writer->Send(ErrorResponse(503, "busy", "server_error"));
    case Mode::kDropStream:
      return Stream(writer, 2);
    case Mode::kDropPing:
      writer->BeginStream(200, "text/event-stream", {});
      return writer->Write(": ping\n\n");
    case Mode::kDrop:
      writer->BeginStream(200, "application/json", {});
      return;
  }
}

std::shared_ptr<ResponseWriter> FakeReplica::WaitForHeld() {
  std::unique_lock lock(mutex_);
  held_changed_.wait_for(lock, std::chrono::seconds(20), [this] { return !held_.empty(); });
  if (held_.empty())
    return nullptr;
  Writer writer = std::move(held_.back());
  held_.pop_back();
  return writer;
}

HttpRequest FakeReplica::last_request() {
  const std::lock_guard lock(mutex_);
  return last_request_;
}

}  // namespace tenon::test
