#include "http/http_fixture.h"

#include <stdexcept>
#include <thread>
#include <utility>

namespace tenon::test {

// Echoes; "close" asks the server to close, "throw" fails.
class EchoSocket final : public WebSocketHandler {
 public:
  explicit EchoSocket(HttpFixture& fixture) : fixture_(fixture) {}
  void OnOpen(const HttpRequest& request, std::shared_ptr<WebSocketConnection> socket) override {
    socket_ = std::move(socket);
    if (request.query.contains("greet"))
      socket_->Send("hello");
  }
  void OnMessage(std::string message) override {
    if (message == "throw")
      throw std::runtime_error("asked to");
    if (message == "close")
      return socket_->Close(4001, "as asked");
    socket_->Send(std::move(message));
  }
  void OnClose() override { fixture_.sockets_closed_.Add(); }
  bool busy() const override { return fixture_.socket_busy_; }

 private:
  HttpFixture& fixture_;
  std::shared_ptr<WebSocketConnection> socket_;
};

namespace {

using Writer = std::shared_ptr<ResponseWriter>;

HttpResponse Text(std::string body) {
  return HttpResponse{200, "text/plain", std::move(body), {}};
}

void SendEvents(const HttpRequest& request, const Writer& writer) {
  writer->BeginStream(200, "text/event-stream", {});
  const int count = std::stoi(request.query.at("n"));
  for (int i = 0; i < count; ++i)
    writer->Write("data: " + std::to_string(i) + "\n\n");
  writer->End();
}

}  // namespace

void HttpFixture::Hold(const Writer& writer) {
  writer->OnClose([this] { closed_.Add(); });
  {
    const std::lock_guard lock(mutex_);
    writers_.push_back(writer);
  }
  held_.Add();
}

Router HttpFixture::MakeRouter() {
  Router router;
  router.Add("GET", "/hello", [](HttpRequest, Writer writer) { writer->Send(Text("hello")); });
  router.Add(
      "GET", "/health", [](HttpRequest, Writer writer) { writer->Send(Text("ok")); },
      Router::Access::kPublic);
  router.Add("POST", "/echo", [](HttpRequest request, Writer writer) {
    writer->Send(Text(std::move(request.body)));
  });
  router.Add("GET", "/items/{id}", [](HttpRequest request, Writer writer) {
    writer->Send(Text(request.parameters["id"] + "|" + request.query["q"] + "|" + request.key_name +
                      "|" + request.request_id));
  });
  router.Add("GET", "/items/first",
             [](HttpRequest, Writer writer) { writer->Send(Text("literal")); });
  router.Add("GET", "/events", SendEvents);
  router.Add("GET", "/hold", [this](HttpRequest, Writer writer) { Hold(writer); });
  router.Add("GET", "/throw", [](HttpRequest, Writer) { throw std::runtime_error("secret"); });
  router.Add("GET", "/drop", [](HttpRequest, Writer) {});
  router.Add("GET", "/drop-stream", [](HttpRequest, Writer writer) {
    writer->BeginStream(200, "text/event-stream", {});
    writer->Write("data: 1\n\n");
  });
  router.AddWebSocket("/socket", [this] { return std::make_unique<EchoSocket>(*this); });
  return router;
}

void HttpFixture::StartServer(const HttpServerOptions& options) {
  auto server = HttpServer::Start(options, MakeRouter());
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  server_ = *std::move(server);
}

void HttpFixture::TearDown() {
  server_.reset();
}

RawAnswer HttpFixture::Ask(std::string_view request) {
  RawClient client(server_->port());
  client.Send(request);
  return client.ReadAnswer();
}

Writer HttpFixture::HeldWriter() {
  const std::lock_guard lock(mutex_);
  Writer writer = std::move(writers_.back());
  writers_.pop_back();
  return writer;
}

}  // namespace tenon::test
