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

// As a header says it over HTTP, so a field says here when to come again.
Json ErrorMessage(const Json& id, const ApiError& error) {
  Json message{{"id", id}, {"type", "error"}, {"status", error.status}};
  if (const int seconds = RetryAfterSeconds(error); seconds > 0)
    message["retry_after"] = seconds;
  message["error"] = ErrorBody(ApiStyle::kOpenAi, error)["error"];
  return message;
}

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
  Status Handle(const Json& message, size_t bytes);
  // What a message asks for. The serial tells it from a later request with the same id.
  struct Order {
    std::string id;
    std::string type;
    uint64_t serial = 0;
  };
  void BeginSafely(const Order& order, const Json& request);
  Status Begin(const Order& order, const Json& request);
  void Cancel(const std::string& id);
  void Forget(const std::string& id);

  struct Running {
    std::shared_ptr<AnswerHandle> handle;  // null between the request's arrival and its start
    bool is_cancelled = false;             // before it had started
    uint64_t serial = 0;
  };

  ApiContext& context_;
  Caller caller_;
  std::shared_ptr<WebSocketConnection> socket_;
  mutable std::mutex mutex_;
  int ending_ = 0;  // requests whose last message is not queued yet
  std::map<std::string, Running> running_;
  uint64_t last_serial_ = 0;
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
  void SendError(const ApiError& error) override { session_->End(id_, ErrorMessage(id_, error)); }
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
      status = Handle(*message, text.size());
    } else {
      status = std::move(message).error();
    }
  } catch (const std::exception& error) {
    status = MakeError(ErrorCode::kInternal, error.what());
  }
  if (status.ok())
    return;
  Send(ErrorMessage(id, ToApiError(status.error())));
}

Status Session::Handle(const Json& message, size_t bytes) {
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
  Order order{id, type, 0};
  {
    const std::lock_guard lock(mutex_);
    if (running_.size() >= kMaxRequests)
      return MakeError(ErrorCode::kResourceExhausted,
                       fmt::format("{} requests run on this connection", kMaxRequests));
    order.serial = ++last_serial_;
    if (!running_.emplace(id, Running{nullptr, false, order.serial}).second)
      return InvalidArgument("a request with this id is running", "id");
  }
  if (bytes <= kLargeBody) {
    BeginSafely(order, *request);
    return {};
  }
  const auto work = [self = shared_from_this(), order,
                     large = std::make_shared<const Json>(*request)] {
    self->BeginSafely(order, *large);
  };
  if (context_.work().Post(work))
    return {};
  Forget(id);
  return MakeError(ErrorCode::kResourceExhausted, "too many large requests wait");
}

void Session::BeginSafely(const Order& order, const Json& request) {
  Status begun;
  try {
    begun = Begin(order, request);
  } catch (const std::exception& error) {
    begun = MakeError(ErrorCode::kInternal, error.what());
  }
  if (!begun.ok())
    End(order.id, ErrorMessage(order.id, ToApiError(begun.error())));
}

Status Session::Begin(const Order& order, const Json& request) {
  const std::string& id = order.id;
  ServingEngine* engine = context_.engine();
  if (engine == nullptr)
    return MakeError(ErrorCode::kCancelled, "Loading model");
  const TextParser parse = order.type == "chat" ? ParseChatCompletion : ParseCompletion;
  TENON_ASSIGN_OR_RETURN(TextJob job, parse(context_, engine->model(), request));
  Caller caller = caller_;
  caller.request_id = fmt::format("{}/{}", caller_.request_id, id);
  auto handle = StartCancellableAnswer(context_, *engine, std::move(caller), std::move(job),
                                       std::make_shared<WebSocketChannel>(shared_from_this(), id));
  bool closed = false;
  bool cancelled = false;
  {
    const std::lock_guard lock(mutex_);
    closed = closed_;
    const auto entry = running_.find(id);
    if (entry != running_.end() && entry->second.serial == order.serial) {
      entry->second.handle = handle;
      cancelled = entry->second.is_cancelled;
    }
  }
  if (closed)
    handle->Abandon();
  else if (cancelled)
    handle->Cancel();
  return {};
}

void Session::Cancel(const std::string& id) {
  std::shared_ptr<AnswerHandle> handle;
  {
    const std::lock_guard lock(mutex_);
    const auto entry = running_.find(id);
    if (entry != running_.end()) {
      handle = entry->second.handle;
      entry->second.is_cancelled = true;
    }
  }
  if (handle != nullptr)
    handle->Cancel();
}

void Session::Close() {
  std::map<std::string, Running> running;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    running.swap(running_);
  }
  for (const auto& [id, request] : running) {
    if (request.handle != nullptr)
      request.handle->Abandon();
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
