#include "frontend/server/http/connection.h"

#include <boost/asio/post.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <exception>
#include <utility>

#include "base/log.h"
#include "frontend/server/http/request_target.h"
#include "frontend/server/http/web_socket.h"

namespace tenon {
namespace {

namespace http = boost::beast::http;
using std::chrono::milliseconds;
using Connection = AnswerForm::Connection;

// What a client may send ahead while its request is handled; more waits in the kernel.
constexpr size_t kMaxAheadBytes = 64 << 10;
// How long the rest of a refused request is read, so that the client sees the answer and no reset.
constexpr milliseconds kLingerTime{2000};
constexpr size_t kMaxRequestIdBytes = 128;

std::string_view View(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

HttpResponse InvalidRequest(int status, std::string_view message) {
  return ErrorResponse(status, message, "invalid_request_error");
}

HttpResponse ParseErrorResponse(const boost::system::error_code& error) {
  if (error == http::error::header_limit)
    return InvalidRequest(431, "the request's headers are too large");
  if (error == http::error::body_limit)
    return InvalidRequest(413, "the request's body is too large");
  return InvalidRequest(400, "not a valid HTTP request: " + error.message());
}

// Plain text only: the id goes into logs and headers.
bool IsPlainId(std::string_view id) {
  constexpr std::string_view kMarks = "-_.:+/=";
  if (id.empty() || id.size() > kMaxRequestIdBytes)
    return false;
  return std::all_of(id.begin(), id.end(), [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

std::string_view FirstHeader(const HttpHeaders& headers, std::string_view name) {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

}  // namespace

HttpConnection::HttpConnection(std::shared_ptr<Service> service,
                               std::unique_ptr<Transport> transport, std::string remote_address)
    : service_(std::move(service)),
      transport_(std::move(transport)),
      remote_address_(std::move(remote_address)),
      deadline_(transport_->executor()),
      send_deadline_(transport_->executor()),
      ping_timer_(transport_->executor()) {}

void HttpConnection::Start(Mode mode) {
  service_->connections.Add(shared_from_this());
  if (stopping())  // asked after Add: Stop closes those that it finds in the list
    return Close();
  ArmDeadline(service_->options.header_timeout);
  transport_->Handshake([self = shared_from_this(), mode](ErrorCode error) {
    if (error || self->phase_ == Phase::kClosed)
      return self->Close();
    if (mode == Mode::kServe)
      return self->Advance();
    HttpResponse busy = ErrorResponse(503, "the server has too many connections", "server_error");
    busy.headers.emplace("Retry-After", "1");
    self->Reject(std::move(busy), Connection::kClose);
    self->ReadMore();
  });
}

// --- Input ---

void HttpConnection::ReadMore() {
  const bool full = phase_ == Phase::kHandling && input_.size() >= kMaxAheadBytes;
  if (reading_ || full || end_of_input_ || phase_ == Phase::kClosed || !transport_)
    return;
  reading_ = true;
  transport_->Read(asio::buffer(chunk_), [self = shared_from_this()](ErrorCode error, size_t n) {
    self->OnRead(error, n);
  });
}

void HttpConnection::OnRead(ErrorCode error, size_t bytes) {
  reading_ = false;
  if (phase_ == Phase::kClosed)
    return;
  if (error) {
    if (!IsEndOfStream(error))
      return Close();
    return OnEndOfInput();
  }
  if (phase_ != Phase::kLingering)
    input_.append(chunk_.data(), bytes);
  Advance();
}

void HttpConnection::OnEndOfInput() {
  end_of_input_ = true;
  if (phase_ != Phase::kHandling || exchange_->OnGone(Exchange::Gone::kHalfClosed))
    Close();
}

void HttpConnection::Advance() {
  while (phase_ == Phase::kIdle || phase_ == Phase::kHeader || phase_ == Phase::kBody) {
    if (ParseSome() == Need::kNothing)
      continue;
    if (end_of_input_)
      return Close();
    break;
  }
  ReadMore();
}

HttpConnection::Need HttpConnection::ParseSome() {
  if (phase_ == Phase::kIdle)
    return BeginRequest();
  return phase_ == Phase::kHeader ? ParseHeader() : ParseBody();
}

HttpConnection::Need HttpConnection::BeginRequest() {
  // Empty lines before a request are ignored (RFC 9112 section 2.2).
  while (input_.starts_with("\r\n"))
    input_.erase(0, 2);
  if (input_.empty() || input_ == "\r")
    return Need::kMoreBytes;
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(service_->options.max_header_bytes));
  parser_->body_limit(service_->options.max_body_bytes);
  header_bytes_ = 0;
  request_ = {};
  match_ = {};
  form_ = {};
  phase_ = Phase::kHeader;
  ArmDeadline(service_->options.header_timeout);
  return Need::kNothing;
}

size_t HttpConnection::Put(ErrorCode& error) {
  const size_t used = parser_->put(asio::buffer(input_), error);
  input_.erase(0, used);
  return used;
}

HttpConnection::Need HttpConnection::ParseHeader() {
  ErrorCode error;
  header_bytes_ += Put(error);
  // The parser's own limit is on what it has not yet consumed.
  if (error == http::error::need_more &&
      header_bytes_ + input_.size() > service_->options.max_header_bytes)
    error = http::error::header_limit;
  if (error == http::error::need_more)
    return Need::kMoreBytes;
  if (error || !parser_->is_header_done()) {
    Reject(ParseErrorResponse(error), Connection::kClose);
    return Need::kNothing;
  }
  phase_ = Phase::kBody;
  OnHeader();
  return Need::kNothing;
}

HttpConnection::Need HttpConnection::ParseBody() {
  ErrorCode error;
  while (!parser_->is_done() && !input_.empty() && !error)
    Put(error);
  if (error && error != http::error::need_more) {
    Reject(ParseErrorResponse(error), Connection::kClose);
    return Need::kNothing;
  }
  if (!parser_->is_done())
    return Need::kMoreBytes;
  Dispatch();
  return Need::kNothing;
}

void HttpConnection::OnDeadline() {
  if (phase_ == Phase::kHeader || phase_ == Phase::kBody)
    return Reject(InvalidRequest(408, "the request did not arrive in time"), Connection::kClose);
  Close();
}

// --- Requests ---

// Everything that can be said before the body comes.
void HttpConnection::OnHeader() {
  ArmDeadline(service_->options.body_timeout);
  if (ReadRequest() && CheckAccess())
    CheckExpectation();
}

bool HttpConnection::ReadRequest() {
  const auto& message = parser_->get();
  form_.version =
      message.version() == 10 ? AnswerForm::Version::kHttp10 : AnswerForm::Version::kHttp11;
  form_.connection = parser_->keep_alive() ? Connection::kKeepAlive : Connection::kClose;
  form_.body =
      message.method() == http::verb::head ? AnswerForm::Body::kLeftOut : AnswerForm::Body::kSent;
  for (const auto& field : message)
    request_.headers.emplace(View(field.name_string()), View(field.value()));
  const std::string_view id = FirstHeader(request_.headers, "X-Request-Id");
  request_.request_id = IsPlainId(id) ? std::string(id) : NewRequestId();
  form_.request_id = request_.request_id;
  request_.remote_address = remote_address_;
  request_.method = std::string(View(message.method_string()));
  if (request_.method == "HEAD")
    request_.method = "GET";
  return CheckFraming() && ReadTarget();
}

// What proxies and servers could understand differently is refused (RFC 9112 sections 3.2, 6.1).
bool HttpConnection::CheckFraming() {
  if (parser_->get().count(http::field::transfer_encoding) > 0 && !parser_->chunked()) {
    Reject(InvalidRequest(501, "this transfer encoding is not supported"), Connection::kClose);
    return false;
  }
  const size_t hosts = request_.headers.count(std::string_view("Host"));
  if (hosts > 1 || (hosts == 0 && form_.version == AnswerForm::Version::kHttp11)) {
    Reject(InvalidRequest(400, "the request needs one Host header"), Connection::kClose);
    return false;
  }
  return true;
}

bool HttpConnection::ReadTarget() {
  if (request_.method == "CONNECT")  // its target is no path; no route matches
    return true;
  auto target = ParseTarget(View(parser_->get().target()));
  if (!target.ok()) {
    Reject(InvalidRequest(400, target.error().message), Connection::kClose);
    return false;
  }
  match_ = service_->routes.Find(request_.method, target->segments);
  request_.parameters = std::move(match_.parameters);
  request_.path = std::move(target->path);
  request_.query = std::move(target->query);
  request_.target = std::move(target->origin_form);
  if (!target->authority.empty()) {
    request_.headers.erase("Host");
    request_.headers.emplace("Host", target->authority);
  }
  return true;
}

bool HttpConnection::CheckAccess() {
  const std::shared_ptr<const RequestGate> gate = service_->gate();
  // What follows a body that was not read can't be told from it.
  const Connection after = parser_->is_done() ? form_.connection : Connection::kClose;
  if (!CheckBrowser(*gate, after))
    return false;
  const bool preflight = request_.method == "OPTIONS" && !form_.cors_origin.empty() &&
                         request_.headers.contains("Access-Control-Request-Method");
  const auto key = gate->FindKey(request_.headers);
  if (!key && match_.access != Router::Access::kPublic && !preflight) {
    HttpResponse denied = ErrorResponse(401, "a valid API key is needed", "authentication_error",
                                        {}, "invalid_api_key");
    denied.headers.emplace("WWW-Authenticate", "Bearer");
    Reject(std::move(denied), after);
    return false;
  }
  request_.key_name = key.value_or("");
  return true;
}

// Against what a foreign page may make a browser do.
bool HttpConnection::CheckBrowser(const RequestGate& gate, Connection after) {
  const std::string_view host = FirstHeader(request_.headers, "Host");
  const std::string_view origin = FirstHeader(request_.headers, "Origin");
  const auto deny = [&](std::string_view why) {
    Reject(ErrorResponse(403, why, "permission_error"), after);
    return false;
  };
  // A browser always sends Host; HTTP/1.0 tools need not.
  const bool old_tool = host.empty() && form_.version == AnswerForm::Version::kHttp10;
  if (!old_tool && !gate.HostAllowed(host))
    return deny("this Host is not allowed; add it to the allowed hosts");
  if (origin.empty())
    return true;
  if (!gate.OriginAllowed(origin, host))
    return deny("requests from pages of this origin are not allowed");
  if (gate.OriginListed(origin))
    form_.cors_origin = std::string(origin);
  return true;
}

bool HttpConnection::CheckExpectation() {
  const std::string_view expect = FirstHeader(request_.headers, "Expect");
  if (expect.empty() || form_.version == AnswerForm::Version::kHttp10)
    return true;
  if (!boost::beast::iequals(boost::beast::string_view(expect.data(), expect.size()),
                             "100-continue")) {
    Reject(InvalidRequest(417, "this expectation is not supported"), Connection::kClose);
    return false;
  }
  if (!parser_->is_done() && input_.empty() && !sending_) {
    output_ = "HTTP/1.1 100 Continue\r\n\r\n";
    interim_bytes_ = output_.size();
    SendMore();
  }
  return true;
}

// A preflight of the browser, or a question for the methods of a path.
void HttpConnection::AnswerOptions() {
  HttpResponse response;
  response.status = 204;
  response.headers.emplace("Allow", match_.allow.empty() ? "OPTIONS" : match_.allow);
  if (!form_.cors_origin.empty()) {
    const std::string_view asked = FirstHeader(request_.headers, "Access-Control-Request-Headers");
    response.headers.emplace("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE, OPTIONS");
    response.headers.emplace("Access-Control-Allow-Headers",
                             asked.empty() ? "Authorization, Content-Type" : asked);
    response.headers.emplace("Access-Control-Max-Age", "600");
  }
  Reject(std::move(response), form_.connection);
}

void HttpConnection::Dispatch() {
  const auto& message = parser_->get();
  if (match_.web_socket != nullptr && boost::beast::websocket::is_upgrade(message))
    return Upgrade(*match_.web_socket);
  request_.body = std::move(parser_->get().body());
  if (match_.handler != nullptr)
    return CallHandler(*match_.handler);
  if (request_.method == "OPTIONS" &&
      (!match_.allow.empty() || request_.path == "*" || !form_.cors_origin.empty()))
    return AnswerOptions();
  if (match_.allow.empty() && request_.method != "CONNECT")
    return Reject(InvalidRequest(404, "unknown path: " + request_.path), form_.connection);
  const bool needs_upgrade = match_.web_socket != nullptr && request_.method == "GET";
  HttpResponse response =
      needs_upgrade ? InvalidRequest(426, "this path takes WebSocket connections")
                    : InvalidRequest(405, request_.method + " is not allowed on this path");
  response.headers.emplace(needs_upgrade ? "Upgrade" : "Allow",
                           needs_upgrade ? "websocket" : match_.allow);
  Reject(std::move(response), form_.connection);
}

void HttpConnection::OpenExchange(Connection after) {
  form_.connection = after;
  exchange_ = std::make_shared<Exchange>(shared_from_this(), std::move(form_),
                                         service_->options.max_backlog_bytes);
  phase_ = Phase::kHandling;
  parser_.reset();
  deadline_.cancel();
}

void HttpConnection::CallHandler(const HttpHandler& handler) {
  OpenExchange(form_.connection);
  const std::shared_ptr<Exchange> exchange = exchange_;
  auto writer = MakeWriter(exchange);
  const std::string id = request_.request_id;
  try {
    handler(std::move(request_), writer);
  } catch (const std::exception& error) {
    Log(LogLevel::kError, "request {}: the handler failed: {}", id, error.what());
    exchange->Send(ErrorResponse(500, "internal error", "server_error"));
  } catch (...) {
    exchange->Send(ErrorResponse(500, "internal error", "server_error"));
  }
  // The end of the input may have come before the request was complete.
  if (end_of_input_ && phase_ == Phase::kHandling && exchange->OnGone(Exchange::Gone::kHalfClosed))
    Close();
}

void HttpConnection::Reject(HttpResponse response, Connection after) {
  OpenExchange(after);
  exchange_->Send(std::move(response));
}

void HttpConnection::Upgrade(const WebSocketFactory& factory) {
  // A client waits for the answer to its handshake before it sends frames, and for the answers to
  // earlier requests before it asks for an upgrade.
  if (reading_ || sending_ || !input_.empty())
    return Reject(InvalidRequest(400, "an upgrade can't be pipelined"), Connection::kClose);
  phase_ = Phase::kClosed;
  deadline_.cancel();
  StartWebSocket(service_, std::move(transport_), parser_->release(), std::move(request_), factory);
  service_->connections.Remove(this);
}

// --- Output ---

void HttpConnection::WakeSender() {
  asio::post(deadline_.get_executor(), [self = shared_from_this()] { self->SendMore(); });
}

void HttpConnection::CloseSoon() {
  asio::post(deadline_.get_executor(), [self = shared_from_this()] { self->Close(); });
}

void HttpConnection::Drain() {
  asio::post(deadline_.get_executor(), [self = shared_from_this()] {
    if (self->phase_ == Phase::kIdle || self->phase_ == Phase::kLingering)
      self->Close();
  });
}

void HttpConnection::SendMore() {
  if (sending_ || phase_ == Phase::kClosed)
    return;
  if (output_.empty() && exchange_)
    output_ = exchange_->TakeOutput();
  if (output_.empty()) {
    if (exchange_ && exchange_->finished())
      FinishAnswer();
    return;
  }
  sending_ = true;
  ArmSendDeadline();
  transport_->Write(
      asio::buffer(output_) + sent_bytes_,
      [self = shared_from_this()](ErrorCode error, size_t n) { self->OnSent(error, n); });
}

void HttpConnection::OnSent(ErrorCode error, size_t bytes) {
  sending_ = false;
  send_deadline_.cancel();
  if (error || phase_ == Phase::kClosed)
    return Close();
  sent_bytes_ += bytes;
  if (interim_bytes_ == 0 && exchange_)
    exchange_->OnSent(bytes);
  if (sent_bytes_ == output_.size()) {
    output_.clear();
    sent_bytes_ = 0;
    interim_bytes_ = 0;
  }
  SendMore();
}

void HttpConnection::FinishAnswer() {
  const bool keep = exchange_->keeps_connection() && !stopping();
  exchange_.reset();
  ping_timer_.cancel();
  if (!keep || (end_of_input_ && input_.empty()))
    return Linger();
  phase_ = Phase::kIdle;
  ArmDeadline(service_->options.idle_timeout);
  Advance();
}

// A socket that is closed with unread input resets the connection, and the client may lose the
// answer. So the rest of a request that was refused is read and thrown away for a while.
void HttpConnection::Linger() {
  phase_ = Phase::kLingering;
  input_.clear();
  ArmDeadline(kLingerTime);
  transport_->ShutDown([self = shared_from_this()](ErrorCode) {
    if (self->end_of_input_ || self->stopping())
      return self->Close();
    self->ReadMore();
  });
}

void HttpConnection::Close() {
  if (phase_ == Phase::kClosed)
    return;
  phase_ = Phase::kClosed;
  deadline_.cancel();
  send_deadline_.cancel();
  ping_timer_.cancel();
  transport_->Close();
  if (auto exchange = std::exchange(exchange_, nullptr))
    exchange->OnGone(Exchange::Gone::kClosed);
  service_->connections.Remove(this);
}

// --- Timers ---

// A timer that was set again after it expired calls back once for nothing: the expiry tells.
void HttpConnection::ArmDeadline(milliseconds delay) {
  deadline_.expires_after(delay);
  deadline_.async_wait([self = shared_from_this()](ErrorCode error) {
    if (!error && self->deadline_.expiry() <= std::chrono::steady_clock::now() &&
        self->phase_ != Phase::kHandling && self->phase_ != Phase::kClosed)
      self->OnDeadline();
  });
}

void HttpConnection::ArmSendDeadline() {
  send_deadline_.expires_after(service_->options.write_timeout);
  send_deadline_.async_wait([self = shared_from_this()](ErrorCode error) {
    if (!error && self->sending_ &&
        self->send_deadline_.expiry() <= std::chrono::steady_clock::now())
      self->Close();
  });
}

void HttpConnection::StartPings(milliseconds interval) {
  asio::post(ping_timer_.get_executor(),
             [self = shared_from_this(), interval] { self->ArmPing(interval); });
}

void HttpConnection::ArmPing(milliseconds delay) {
  if (delay.count() <= 0 || phase_ != Phase::kHandling)
    return;
  ping_timer_.expires_after(delay);
  ping_timer_.async_wait([self = shared_from_this()](ErrorCode error) {
    if (!error && self->exchange_)
      self->ArmPing(self->exchange_->Ping());
  });
}

}  // namespace tenon
