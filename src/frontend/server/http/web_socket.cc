#include "frontend/server/http/web_socket.h"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket.hpp>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

#include "base/log.h"

namespace tenon {
namespace {

namespace beast = boost::beast;
namespace websocket = beast::websocket;
using ErrorCode = boost::system::error_code;

// How often a draining session looks whether its answers are done.
constexpr std::chrono::milliseconds kDrainPoll{50};

// A Transport in the form that Beast asks of streams.
class TransportStream {
 public:
  using executor_type = asio::any_io_executor;
  explicit TransportStream(std::unique_ptr<Transport> transport)
      : transport_(std::move(transport)) {}

  executor_type get_executor() { return transport_->executor(); }
  Transport& transport() { return *transport_; }

  template <class Buffers, class Handler>
  auto async_read_some(const Buffers& buffers, Handler&& handler) {
    return asio::async_initiate<Handler, void(ErrorCode, size_t)>(
        [this](auto done, asio::mutable_buffer buffer) {
          transport_->Read(buffer, Shared(std::move(done)));
        },
        handler, FirstBuffer<asio::mutable_buffer>(buffers));
  }

  template <class Buffers, class Handler>
  auto async_write_some(const Buffers& buffers, Handler&& handler) {
    return asio::async_initiate<Handler, void(ErrorCode, size_t)>(
        [this](auto done, asio::const_buffer buffer) {
          transport_->Write(buffer, Shared(std::move(done)));
        },
        handler, FirstBuffer<asio::const_buffer>(buffers));
  }

 private:
  // Beast's handlers can only be moved, std::function's must be copied.
  template <class Done>
  static Transport::Done Shared(Done done) {
    auto shared = std::make_shared<Done>(std::move(done));
    return [shared](ErrorCode error, size_t bytes) { (*shared)(error, bytes); };
  }
  template <class Buffer, class Buffers>
  static Buffer FirstBuffer(const Buffers& buffers) {
    const auto end = asio::buffer_sequence_end(buffers);
    for (auto it = asio::buffer_sequence_begin(buffers); it != end; ++it) {
      const Buffer buffer(*it);
      if (buffer.size() > 0)
        return buffer;
    }
    return Buffer();
  }

  std::unique_ptr<Transport> transport_;
};

// Found by Beast through their argument.
void beast_close_socket(TransportStream& stream) {
  stream.transport().Close();
}
template <class Handler>
void async_teardown(beast::role_type /*role*/, TransportStream& stream, Handler&& handler) {
  auto shared = std::make_shared<std::decay_t<Handler>>(std::forward<Handler>(handler));
  stream.transport().ShutDown([shared](ErrorCode error) { (*shared)(error); });
}

class WebSocketSession final : public WebSocketConnection,
                               public ServedConnection,
                               public std::enable_shared_from_this<WebSocketSession> {
 public:
  WebSocketSession(std::shared_ptr<Service> service, std::unique_ptr<Transport> transport,
                   HttpRequest request, std::unique_ptr<WebSocketHandler> handler)
      : service_(std::move(service)),
        request_(std::move(request)),
        handler_(std::move(handler)),
        executor_(transport->executor()),
        drain_timer_(executor_),
        stream_(std::move(transport)) {}

  void Start(UpgradeRequest upgrade);
  void Send(std::string message) override;
  void Close(uint16_t code, std::string reason) override;
  size_t backlog() const override;
  void Drain() override;
  void Abort() override;

 private:
  void Configure();
  void OnAccepted(ErrorCode error);
  void ReadMore();
  void OnRead(ErrorCode error);
  void SendMore();
  void OnSent(ErrorCode error);
  void BeginClose(uint16_t code, std::string reason);
  void CloseWhenIdle();
  void Finish();
  template <class Call>
  void Guarded(const Call& call);

  const std::shared_ptr<Service> service_;
  HttpRequest request_;
  std::unique_ptr<WebSocketHandler> handler_;  // nullptr: finished
  const asio::any_io_executor executor_;
  asio::steady_timer drain_timer_;
  websocket::stream<TransportStream> stream_;
  UpgradeRequest upgrade_;
  beast::flat_buffer input_;
  bool opened_ = false;
  bool sending_ = false;
  bool closing_ = false;
  bool close_sent_ = false;
  websocket::close_reason reason_;

  mutable std::mutex mutex_;  // of what follows
  std::deque<std::string> output_;
  size_t unsent_bytes_ = 0;
  bool closed_ = false;
};

void WebSocketSession::Configure() {
  auto limits = websocket::stream_base::timeout::suggested(beast::role_type::server);
  limits.idle_timeout = service_->options.idle_timeout;
  limits.handshake_timeout = service_->options.header_timeout;
  limits.keep_alive_pings = true;
  stream_.set_option(limits);
  stream_.read_message_max(service_->options.max_body_bytes);
  stream_.text(true);
  stream_.auto_fragment(false);  // one message, one frame: what simple clients expect
  const std::string id = request_.request_id;
  stream_.set_option(websocket::stream_base::decorator(
      [id](websocket::response_type& response) { response.set("X-Request-Id", id); }));
}

void WebSocketSession::Start(UpgradeRequest upgrade) {
  service_->connections.Add(shared_from_this());
  Configure();
  upgrade_ = std::move(upgrade);
  stream_.async_accept(upgrade_,
                       [self = shared_from_this()](ErrorCode error) { self->OnAccepted(error); });
}

// What a handler throws closes its connection and nothing else.
template <class Call>
void WebSocketSession::Guarded(const Call& call) {
  try {
    call();
  } catch (const std::exception& error) {
    Log(LogLevel::kError, "WebSocket {}: the handler failed: {}", request_.request_id,
        error.what());
    BeginClose(websocket::close_code::internal_error, "internal error");
  } catch (...) {
    BeginClose(websocket::close_code::internal_error, "internal error");
  }
}

void WebSocketSession::OnAccepted(ErrorCode error) {
  if (error || !handler_)
    return Finish();
  opened_ = true;
  Guarded([this] { handler_->OnOpen(request_, shared_from_this()); });
  ReadMore();
  if (service_->stopping)
    CloseWhenIdle();
}

void WebSocketSession::ReadMore() {
  stream_.async_read(input_,
                     [self = shared_from_this()](ErrorCode error, size_t) { self->OnRead(error); });
}

void WebSocketSession::OnRead(ErrorCode error) {
  if (error || !handler_)
    return Finish();
  std::string message = beast::buffers_to_string(input_.data());
  input_.consume(input_.size());
  if (input_.capacity() > (64 << 10))
    input_.shrink_to_fit();
  if (!stream_.got_text())
    BeginClose(websocket::close_code::unknown_data, "text messages only");
  else if (!closing_)
    Guarded([&] { handler_->OnMessage(std::move(message)); });
  ReadMore();
}

void WebSocketSession::Send(std::string message) {
  const std::lock_guard lock(mutex_);
  if (closed_)
    return;
  unsent_bytes_ += message.size();
  output_.push_back(std::move(message));
  if (unsent_bytes_ > service_->options.max_backlog_bytes) {
    asio::post(executor_, [self = shared_from_this()] { self->Finish(); });
  } else {
    asio::post(executor_, [self = shared_from_this()] { self->SendMore(); });
  }
}

void WebSocketSession::Close(uint16_t code, std::string reason) {
  const std::lock_guard lock(mutex_);
  if (closed_)
    return;
  asio::post(executor_, [self = shared_from_this(), code, reason = std::move(reason)]() mutable {
    self->BeginClose(code, std::move(reason));
  });
}

size_t WebSocketSession::backlog() const {
  const std::lock_guard lock(mutex_);
  return unsent_bytes_;
}

void WebSocketSession::SendMore() {
  if (sending_ || !opened_ || !handler_ || close_sent_)
    return;
  std::string* message = nullptr;
  {
    const std::lock_guard lock(mutex_);
    message = output_.empty() ? nullptr : &output_.front();  // a deque's elements don't move
  }
  if (message != nullptr) {
    sending_ = true;
    stream_.async_write(
        asio::buffer(*message),
        [self = shared_from_this()](ErrorCode error, size_t) { self->OnSent(error); });
  } else if (closing_) {
    close_sent_ = true;
    stream_.async_close(reason_, [self = shared_from_this()](ErrorCode) { self->Finish(); });
  }
}

void WebSocketSession::OnSent(ErrorCode error) {
  sending_ = false;
  if (error || !handler_)
    return Finish();
  {
    const std::lock_guard lock(mutex_);
    unsent_bytes_ -= output_.front().size();
    output_.pop_front();
  }
  SendMore();
}

// After what is queued.
void WebSocketSession::BeginClose(uint16_t code, std::string reason) {
  constexpr size_t kMaxReasonBytes = 123;  // RFC 6455 section 5.5
  if (closing_)
    return;
  closing_ = true;
  reason.resize(std::min(reason.size(), kMaxReasonBytes));
  reason_ = websocket::close_reason(static_cast<websocket::close_code>(code), reason);
  SendMore();
}

void WebSocketSession::Drain() {
  asio::post(executor_, [self = shared_from_this()] { self->CloseWhenIdle(); });
}

void WebSocketSession::CloseWhenIdle() {
  if (!handler_ || !opened_)
    return;
  if (!handler_->busy())
    return BeginClose(websocket::close_code::going_away, "the server stops");
  drain_timer_.expires_after(kDrainPoll);
  drain_timer_.async_wait([self = shared_from_this()](ErrorCode error) {
    if (!error)
      self->CloseWhenIdle();
  });
}

void WebSocketSession::Abort() {
  asio::post(executor_, [self = shared_from_this()] { self->Finish(); });
}

void WebSocketSession::Finish() {
  if (!handler_)
    return;
  const std::unique_ptr<WebSocketHandler> handler = std::exchange(handler_, nullptr);
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    unsent_bytes_ = 0;
  }
  drain_timer_.cancel();
  stream_.next_layer().transport().Close();
  try {
    if (opened_)
      handler->OnClose();
  } catch (const std::exception& error) {
    Log(LogLevel::kError, "WebSocket {}: OnClose failed: {}", request_.request_id, error.what());
  }
  service_->connections.Remove(this);
}

}  // namespace

void StartWebSocket(const std::shared_ptr<Service>& service, std::unique_ptr<Transport> transport,
                    UpgradeRequest upgrade, HttpRequest request, const WebSocketFactory& factory) {
  auto session = std::make_shared<WebSocketSession>(service, std::move(transport),
                                                    std::move(request), factory());
  session->Start(std::move(upgrade));
}

}  // namespace tenon
