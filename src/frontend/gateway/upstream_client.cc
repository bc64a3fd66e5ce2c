#include "frontend/gateway/upstream_client.h"

#include <fmt/format.h>

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "frontend/server/http/transport.h"

namespace tenon {
namespace {

namespace http = boost::beast::http;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using SocketError = boost::system::error_code;
using Parser = http::response_parser<http::string_body>;
using std::chrono::milliseconds;

// Below the 60 and more seconds after which servers close idle connections.
constexpr std::chrono::seconds kKeepTime{30};
constexpr size_t kMaxKept = 64;  // of one replica
constexpr uint32_t kMaxHeaderBytes = 64 << 10;

std::string RequestText(const UpstreamRequest& request) {
  const ReplicaAddress& replica = request.replica;
  const bool v6 = replica.host.find(':') != std::string::npos;
  std::string text =
      fmt::format("{} {}{} HTTP/1.1\r\nHost: {}{}{}:{}\r\n", request.method, replica.path_prefix,
                  request.target, v6 ? "[" : "", replica.host, v6 ? "]" : "", replica.port);
  for (const auto& [name, value] : request.headers)
    text += fmt::format("{}: {}\r\n", name, value);
  if (!request.body.empty() || request.method == "POST" || request.method == "PUT")
    text += fmt::format("Content-Length: {}\r\n", request.body.size());
  text += "\r\n";
  text += request.body;
  return text;
}

}  // namespace

// Connections that wait for the next request to their replica, newest last.
class UpstreamClient::Pool {
 public:
  using Key = std::string;
  static Key KeyOf(const ReplicaAddress& replica) {
    return fmt::format("{}|{}|{}|{}", replica.tls, replica.host, replica.port, replica.ca_file);
  }

  std::unique_ptr<Transport> Take(const ReplicaAddress& replica) {
    std::vector<Kept>& kept = kept_[KeyOf(replica)];
    std::erase_if(kept, [](const Kept& each) { return Clock::now() - each.since > kKeepTime; });
    if (kept.empty())
      return nullptr;
    std::unique_ptr<Transport> transport = std::move(kept.back().transport);
    kept.pop_back();
    return transport;
  }

  void Keep(const ReplicaAddress& replica, std::unique_ptr<Transport> transport) {
    std::vector<Kept>& kept = kept_[KeyOf(replica)];
    if (kept.size() < kMaxKept)
      kept.push_back(Kept{std::move(transport), Clock::now()});
  }

  Result<asio::ssl::context*> Tls(const std::string& ca_file) {
    auto& context = tls_[ca_file];
    if (!context) {
      TENON_ASSIGN_OR_RETURN(context, MakeTlsClientContext(ca_file));
    }
    return context.get();
  }

 private:
  struct Kept {
    std::unique_ptr<Transport> transport;
    Clock::time_point since;
  };
  std::map<std::string, std::shared_ptr<asio::ssl::context>> tls_;  // by CA file
  std::map<Key, std::vector<Kept>> kept_;
};

class UpstreamClient::Call final : public UpstreamCall, public std::enable_shared_from_this<Call> {
 public:
  Call(EventLoop& loop, std::shared_ptr<Pool> pool, UpstreamRequest request,
       std::shared_ptr<UpstreamSink> sink)
      : pool_(std::move(pool)),
        request_(std::move(request)),
        text_(RequestText(request_)),
        sink_(std::move(sink)),
        resolver_(loop.context()),
        socket_(loop.context()),
        deadline_(loop.context()) {}

  void Start();
  void Cancel() override;

 private:
  void Connect();
  void OnResolved(const SocketError& error, const tcp::resolver::results_type& endpoints);
  void OnConnected(const SocketError& error);
  void BeginExchange();
  void SendMore(size_t from);
  void ReadMore();
  void OnRead(const SocketError& error, size_t bytes);
  void OnClosed(const SocketError& error);
  void Parse();
  bool DeliverHead();
  void Finish();
  void Fail(std::string_view what, const SocketError& error = {});
  void ArmDeadline(milliseconds delay, const char* what);

  const std::shared_ptr<Pool> pool_;
  const UpstreamRequest request_;
  const std::string text_;
  std::shared_ptr<UpstreamSink> sink_;  // nullptr: over
  tcp::resolver resolver_;
  tcp::socket socket_;  // while connecting
  asio::steady_timer deadline_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Transport> stale_;  // was closed by the replica; its write may be under way
  bool reused_ = false;
  bool got_bytes_ = false;
  bool head_done_ = false;
  bool sending_ = false;
  std::array<char, 16384> chunk_;
  std::string input_;
  std::optional<Parser> parser_;
};

void UpstreamClient::Call::Start() {
  transport_ = pool_->Take(request_.replica);
  reused_ = transport_ != nullptr;
  if (reused_)
    return BeginExchange();
  Connect();
}

void UpstreamClient::Call::Connect() {
  ArmDeadline(request_.connect_timeout, "no connection in time");
  resolver_.async_resolve(request_.replica.host, std::to_string(request_.replica.port),
                          [self = shared_from_this()](const SocketError& error, auto endpoints) {
                            self->OnResolved(error, endpoints);
                          });
}

void UpstreamClient::Call::OnResolved(const SocketError& error,
                                      const tcp::resolver::results_type& endpoints) {
  if (!sink_)
    return;
  if (error)
    return Fail("unknown host", error);
  asio::async_connect(socket_, endpoints,
                      [self = shared_from_this()](const SocketError& failed, const tcp::endpoint&) {
                        self->OnConnected(failed);
                      });
}

void UpstreamClient::Call::OnConnected(const SocketError& error) {
  if (!sink_)
    return;
  if (error)
    return Fail("can't connect", error);
  SocketError ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  if (request_.replica.tls) {
    auto context = pool_->Tls(request_.replica.ca_file);
    if (!context.ok())
      return Fail(context.error().ToString());
    transport_ = MakeTlsClientTransport(std::move(socket_), **context, request_.replica.host);
  } else {
    transport_ = MakeTcpTransport(std::move(socket_));
  }
  transport_->Handshake([self = shared_from_this()](SocketError failed) {
    if (!self->sink_)
      return;
    if (failed)
      return self->Fail("TLS failed", failed);
    self->BeginExchange();
  });
}

void UpstreamClient::Call::BeginExchange() {
  ArmDeadline(request_.answer_timeout, "no answer in time");
  parser_.emplace();
  parser_->header_limit(kMaxHeaderBytes);
  parser_->body_limit(std::numeric_limits<std::uint64_t>::max());
  input_.clear();
  sending_ = true;
  SendMore(0);
  ReadMore();
}

void UpstreamClient::Call::SendMore(size_t from) {
  transport_->Write(
      asio::buffer(text_) + from,
      [self = shared_from_this(), from, used = transport_.get()](SocketError error, size_t n) {
        // A failure shows in the read, which may still bring an early answer.
        if (!self->sink_ || error || self->transport_.get() != used)
          return;
        self->sending_ = from + n < self->text_.size();
        if (self->sending_)
          self->SendMore(from + n);
      });
}

void UpstreamClient::Call::ReadMore() {
  transport_->Read(asio::buffer(chunk_), [self = shared_from_this()](SocketError error, size_t n) {
    self->OnRead(error, n);
  });
}

void UpstreamClient::Call::OnRead(const SocketError& error, size_t bytes) {
  if (!sink_)
    return;
  if (error)
    return OnClosed(error);
  got_bytes_ = true;
  input_.append(chunk_.data(), bytes);
  if (head_done_)
    ArmDeadline(request_.stream_timeout, "the answer stopped");
  Parse();
}

void UpstreamClient::Call::OnClosed(const SocketError& error) {
  // The replica closed the kept connection before it saw the request.
  if (reused_ && !got_bytes_) {
    reused_ = false;
    transport_->Close();
    stale_ = std::move(transport_);
    socket_ = tcp::socket(resolver_.get_executor());
    return Connect();
  }
  SocketError incomplete = error;
  if (IsEndOfStream(error) && parser_->got_some())
    parser_->put_eof(incomplete);
  if (incomplete || !parser_->is_done())
    return Fail("the connection was lost", error);
  Finish();
}

void UpstreamClient::Call::Parse() {
  while (sink_ && !input_.empty() && !parser_->is_done()) {
    SocketError error;
    const size_t used = parser_->put(asio::buffer(input_), error);
    input_.erase(0, used);
    if (error && error != http::error::need_more)
      return Fail("not a valid HTTP answer", error);
    if (parser_->is_header_done() && !head_done_ && !DeliverHead())
      continue;
    std::string body = std::exchange(parser_->get().body(), {});
    if (!body.empty() && sink_)
      sink_->OnBody(body);
    if (error)  // needs more
      break;
  }
  if (!sink_)
    return;
  if (head_done_ && parser_->is_done())
    return Finish();
  ReadMore();
}

// False for an interim answer (100 Continue), which is skipped.
bool UpstreamClient::Call::DeliverHead() {
  const auto& message = parser_->get();
  const int status = static_cast<int>(message.result_int());
  if (status < 200) {
    parser_.emplace();
    parser_->header_limit(kMaxHeaderBytes);
    parser_->body_limit(std::numeric_limits<std::uint64_t>::max());
    return false;
  }
  head_done_ = true;
  ArmDeadline(request_.stream_timeout, "the answer stopped");
  HttpHeaders headers;
  for (const auto& field : message) {
    const auto name = field.name_string();
    const auto value = field.value();
    headers.emplace(std::string(name.data(), name.size()), std::string(value.data(), value.size()));
  }
  sink_->OnHead(status, std::move(headers));
  return true;
}

void UpstreamClient::Call::Finish() {
  deadline_.cancel();
  if (parser_->keep_alive() && input_.empty() && !sending_)
    pool_->Keep(request_.replica, std::move(transport_));
  else
    transport_->Close();
  std::exchange(sink_, nullptr)->OnEnd();
}

void UpstreamClient::Call::Fail(std::string_view what, const SocketError& error) {
  auto sink = std::exchange(sink_, nullptr);
  if (!sink)
    return;
  Cancel();
  sink->OnFailure(MakeError(
      ErrorCode::kIo, error ? fmt::format("{}: {}", what, error.message()) : std::string(what),
      request_.replica.url));
}

void UpstreamClient::Call::Cancel() {
  sink_ = nullptr;
  deadline_.cancel();
  resolver_.cancel();
  SocketError ignored;
  socket_.close(ignored);
  if (transport_)
    transport_->Close();
}

void UpstreamClient::Call::ArmDeadline(milliseconds delay, const char* what) {
  deadline_.expires_after(delay);
  deadline_.async_wait([self = shared_from_this(), what](const SocketError& error) {
    if (!error && self->deadline_.expiry() <= Clock::now())
      self->Fail(what);
  });
}

UpstreamClient::UpstreamClient(EventLoop& loop) : loop_(loop), pool_(std::make_shared<Pool>()) {}
UpstreamClient::~UpstreamClient() = default;

std::shared_ptr<UpstreamCall> UpstreamClient::Start(UpstreamRequest request,
                                                    std::shared_ptr<UpstreamSink> sink) {
  auto call = std::make_shared<Call>(loop_, pool_, std::move(request), std::move(sink));
  loop_.Post([call] { call->Start(); });
  return call;
}

}  // namespace tenon
