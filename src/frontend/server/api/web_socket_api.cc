#include "frontend/server/api/web_socket_api.h"

#include <fmt/format.h>

#include <exception>
#include <map>
#include <mutex>

#include "frontend/server/api/answer_run.h"
#include "frontend/server/api/endpoints.h"
#include "frontend/server/api/field_reader.h"

namespace tenon {
namespace {

// Requests of one connection at the same time.
constexpr size_t kMaxRequests = 256;

// Bytes that a client may be behind before it is closed.
constexpr size_t kMaxBacklogBytes = 4 << 20;

// RFC 6455, 7.4.1: a policy was violated.
constexpr uint16_t kPolicyViolation = 1008;

// The requests of one connection. Outlives the handler while answers are under way.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(ApiContext& context, Caller caller, std::shared_ptr<WebSocketConnection> socket)
      : context_(context), caller_(std::move(caller)), socket_(std::move(socket)) {}

  void OnMessage(const std::string& text);
  // Takes all requests' handles: cancels them.
  void Close();

  void Send(const Json& message);
  // The last message of a request, whose id is free from here on.
  void End(const std::string& id, const Json& message);
  bool busy() const {
    const std::lock_guard lock(mutex_);
    return !running_.empty() || ending_ > 0;
  }

 private:
  Status Handle(const Json& message);
  Status Begin(const std::string& id, const std::string& type, const Json& request);
  void Cancel(const std::string& id);
  void Forget(const std::string& id);

  ApiContext& context_;
  Caller caller_;
  std::shared_ptr<WebSocketConnection> socket_;
  mutable std::mutex mutex_;
  int ending_ = 0;  // requests whose last message is not queued yet
  // Null between the arrival of a request and its start.
  std::map<std::string, std::shared_ptr<AnswerHandle>> running_;
  bool closed_ = false;
};

class WebSocketChannel final : public AnswerChannel {
 public:
  WebSocketChannel(std::shared_ptr<Session> session, std::string id)
      : session_(std::move(session)), id_(std::move(id)) {}

  void SendWhole(const Json& body) override {
    session_->Send({{"id", id_}, {"type", "answer"}, {"data", body}});
    EndEvents();
  }
  void BeginEvents() override {}
  void SendEvent(std::string_view name, const Json& data) override {
    session_->Send({{"id", id_}, {"type", name}, {"data", data}});
  }
  void EndEvents() override { session_->End(id_, {{"id", id_}, {"type", "done"}}); }
  void SendError(const ApiError& error) override {
    Json message{{"id", id_}, {"type", "error"}, {"status", error.status}};
    message["error"] = ErrorBody(ApiStyle::kOpenAi, error)["error"];
    session_->End(id_, message);
  }
  void OnClose(std::function<void()>) override {}  // the session cancels by handle

 private:
  std::shared_ptr<Session> session_;
  std::string id_;
};

void Session::Send(const Json& message) {
  // Without the lock: the connection closes through OnClose, which takes it.
  if (socket_->backlog() > kMaxBacklogBytes)
    return socket_->Close(kPolicyViolation, "too far behind");
  socket_->Send(DumpJson(message));
}

void Session::Forget(const std::string& id) {
  const std::lock_guard lock(mutex_);
  running_.erase(id);
}

// A client may use the id again when it has the message; a server that stops waits for it to be
// sent.
void Session::End(const std::string& id, const Json& message) {
  {
    const std::lock_guard lock(mutex_);
    running_.erase(id);
    ++ending_;
  }
  Send(message);
  const std::lock_guard lock(mutex_);
  --ending_;
}

void Session::OnMessage(const std::string& text) {
  Json id;
  Status status;
  try {
    auto message = ParseJson(text);
    if (message.ok()) {
      if (const Json* given = FindField(*message, "id"); given != nullptr && given->is_string())
        id = *given;
      status = Handle(*message);
    } else {
      status = std::move(message).error();
    }
  } catch (const std::exception& error) {
    status = MakeError(ErrorCode::kInternal, error.what());
  }
  if (status.ok())
    return;
  const ApiError error = ToApiError(status.error());
  Json answer{{"id", id}, {"type", "error"}, {"status", error.status}};
  answer["error"] = ErrorBody(ApiStyle::kOpenAi, error)["error"];
  Send(answer);
}

Status Session::Handle(const Json& message) {
  std::string id;
  std::string type;
  FieldReader fields(message);
  fields.Required("id");
  fields.String("id", id);
  fields.Required("type");
  fields.String("type", type);
  const Json* request = fields.Object("request");
  TENON_RETURN_IF_ERROR(fields.Finish());
  if (type == "cancel") {
    Cancel(id);
    return {};
  }
  if (type != "chat" && type != "completion")
    return InvalidArgument(fmt::format("found '{}', expected chat, completion or cancel", type),
                           "type");
  if (request == nullptr)
    return InvalidArgument("is missing", "request");
  {
    const std::lock_guard lock(mutex_);
    if (running_.size() >= kMaxRequests)
      return MakeError(ErrorCode::kResourceExhausted,
                       fmt::format("{} requests run on this connection", kMaxRequests));
    if (!running_.emplace(id, nullptr).second)
      return InvalidArgument("a request with this id is running", "id");
  }
  const Status begun = Begin(id, type, *request);
  if (!begun.ok())
    Forget(id);
  return begun;
}

Status Session::Begin(const std::string& id, const std::string& type, const Json& request) {
  ServingEngine* engine = context_.engine();
  if (engine == nullptr)
    return MakeError(ErrorCode::kCancelled, "Loading model");
  const TextParser parse = type == "chat" ? ParseChatCompletion : ParseCompletion;
  TENON_ASSIGN_OR_RETURN(TextJob job, parse(context_, engine->model(), request));
  Caller caller = caller_;
  caller.request_id = fmt::format("{}/{}", caller_.request_id, id);
  auto handle = StartCancellableAnswer(context_, *engine, std::move(caller), std::move(job),
                                       std::make_shared<WebSocketChannel>(shared_from_this(), id));
  bool closed = false;
  {
    const std::lock_guard lock(mutex_);
    closed = closed_;
    const auto entry = running_.find(id);
    if (entry != running_.end())
      entry->second = handle;
  }
  if (closed)
    handle->Abandon();
  return {};
}

void Session::Cancel(const std::string& id) {
  std::shared_ptr<AnswerHandle> handle;
  {
    const std::lock_guard lock(mutex_);
    const auto entry = running_.find(id);
    if (entry != running_.end())
      handle = entry->second;
  }
  if (handle != nullptr)
    handle->Cancel();
}

void Session::Close() {
  std::map<std::string, std::shared_ptr<AnswerHandle>> running;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    running.swap(running_);
  }
  for (const auto& [id, handle] : running) {
    if (handle != nullptr)
      handle->Abandon();
  }
}

class WebSocketApi final : public WebSocketHandler {
 public:
  explicit WebSocketApi(ApiContext& context) : context_(context) {}

  void OnOpen(const HttpRequest& request, std::shared_ptr<WebSocketConnection> socket) override {
    session_ = std::make_shared<Session>(context_, CallerOf(request), std::move(socket));
  }
  void OnMessage(std::string message) override { session_->OnMessage(message); }
  void OnClose() override {
    if (session_ != nullptr)
      session_->Close();
  }
  bool busy() const override { return session_ != nullptr && session_->busy(); }

 private:
  ApiContext& context_;
  std::shared_ptr<Session> session_;
};

}  // namespace

WebSocketFactory MakeWebSocketApi(ApiContext& context) {
  return [&context] { return std::make_unique<WebSocketApi>(context); };
}

}  // namespace tenon
