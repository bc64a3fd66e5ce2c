#include "frontend/server/http/http_server.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "base/log.h"
#include "frontend/server/http/connection.h"
#include "frontend/server/http/service.h"
#include "frontend/server/http/transport.h"

namespace tenon {
namespace {

using asio::ip::tcp;
using SocketError = boost::system::error_code;
using std::chrono::milliseconds;

// Connections above the limit that are told so at one time; more are closed without a word.
constexpr size_t kMaxRefusals = 64;
// After accept failed, such as for want of file descriptors.
constexpr milliseconds kAcceptPause{100};

class HttpServerImpl final : public HttpServer {
 public:
  HttpServerImpl(const HttpServerOptions& options, Router router)
      : service_(std::make_shared<Service>(options, std::move(router))),
        acceptor_(asio::make_strand(service_->io)),
        pause_(acceptor_.get_executor()) {}
  ~HttpServerImpl() override { Stop(milliseconds(0)); }

  Status Open();
  uint16_t port() const override { return port_; }
  void Stop(milliseconds limit) override;
  void ReplaceKeys(const std::vector<ApiKey>& keys) override;

 private:
  Result<tcp::endpoint> Resolve();
  Status Listen(const tcp::endpoint& endpoint);
  void Accept();
  void OnAccept(SocketError error, tcp::socket socket);
  void Run();

  const std::shared_ptr<Service> service_;
  std::shared_ptr<asio::ssl::context> tls_;  // nullptr: plain HTTP
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_;
  std::vector<std::thread> threads_;
  uint16_t port_ = 0;
};

Result<tcp::endpoint> HttpServerImpl::Resolve() {
  std::string host = service_->options.host;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  SocketError error;
  tcp::resolver resolver(service_->io);
  const auto found =
      resolver.resolve(host, std::to_string(service_->options.port),
                       tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty())
    return InvalidArgument("no address: " + error.message(), host);
  return found.begin()->endpoint();
}

Status HttpServerImpl::Listen(const tcp::endpoint& endpoint) {
  SocketError error;
  acceptor_.open(endpoint.protocol(), error);
  if (!error)
    acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error)
    acceptor_.bind(endpoint, error);
  if (!error)
    acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (!error)
    port_ = acceptor_.local_endpoint(error).port();
  if (!error)
    return {};
  return MakeError(ErrorCode::kIo, "can't listen: " + error.message(),
                   service_->options.host + ":" + std::to_string(service_->options.port));
}

Status HttpServerImpl::Open() {
  const HttpServerOptions& options = service_->options;
  if (options.tls_certificate_file.empty() != options.tls_key_file.empty())
    return InvalidArgument("TLS needs a certificate and a key");
  if (!options.tls_certificate_file.empty()) {
    TENON_ASSIGN_OR_RETURN(
        tls_, MakeTlsServerContext(options.tls_certificate_file, options.tls_key_file));
  }
  TENON_ASSIGN_OR_RETURN(const tcp::endpoint endpoint, Resolve());
  TENON_RETURN_IF_ERROR(Listen(endpoint));
  work_.emplace(service_->io.get_executor());
  asio::post(acceptor_.get_executor(), [this] { Accept(); });
  for (int i = 0; i < std::max(1, options.io_threads); ++i)
    threads_.emplace_back([this] { Run(); });
  return {};
}

// Nothing is thrown by our own functions; what a library throws must not end the program.
void HttpServerImpl::Run() {
  for (;;) {
    try {
      service_->io.run();
      return;
    } catch (const std::exception& error) {
      Log(LogLevel::kError, "HTTP server: {}", error.what());
    }
  }
}

void HttpServerImpl::Accept() {
  acceptor_.async_accept(
      asio::make_strand(service_->io),
      [this](SocketError error, tcp::socket socket) { OnAccept(error, std::move(socket)); });
}

void HttpServerImpl::OnAccept(SocketError error, tcp::socket socket) {
  if (service_->stopping || error == asio::error::operation_aborted)
    return;
  if (error) {
    pause_.expires_after(kAcceptPause);
    pause_.async_wait([this](SocketError stopped) {
      if (!stopped && !service_->stopping)
        Accept();
    });
    return;
  }
  SocketError ignored;
  socket.set_option(tcp::no_delay(true), ignored);  // events are small and must not wait
  const size_t open = service_->connections.size();
  const size_t limit = service_->options.max_connections;
  if (open < limit + kMaxRefusals) {
    const std::string peer = socket.remote_endpoint(ignored).address().to_string();
    auto transport = tls_ ? MakeTlsServerTransport(std::move(socket), *tls_)
                          : MakeTcpTransport(std::move(socket));
    const auto executor = transport->executor();
    auto connection = std::make_shared<HttpConnection>(service_, std::move(transport), peer);
    const auto mode = open < limit ? HttpConnection::Mode::kServe : HttpConnection::Mode::kRefuse;
    asio::post(executor, [connection, mode] { connection->Start(mode); });
  }
  Accept();
}

void HttpServerImpl::Stop(milliseconds limit) {
  if (threads_.empty())
    return;
  service_->stopping = true;
  asio::post(acceptor_.get_executor(), [this] {
    SocketError ignored;
    acceptor_.close(ignored);
    pause_.cancel();
  });
  for (const auto& connection : service_->connections.All())
    connection->Drain();
  service_->connections.WaitUntilEmpty(limit);
  // An upgrade that is under way lists a new connection: look until all are gone.
  do {
    for (const auto& connection : service_->connections.All())
      connection->Abort();
  } while (!service_->connections.WaitUntilEmpty(milliseconds(20)));
  work_.reset();  // run returns when the last operation has ended
  for (std::thread& thread : threads_)
    thread.join();
  threads_.clear();
}

void HttpServerImpl::ReplaceKeys(const std::vector<ApiKey>& keys) {
  HttpServerOptions options = service_->options;
  options.api_keys = keys;
  service_->ReplaceGate(std::make_shared<const RequestGate>(options));
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpServerOptions& options,
                                                      Router router) {
  auto server = std::make_unique<HttpServerImpl>(options, std::move(router));
  TENON_RETURN_IF_ERROR(server->Open());
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace tenon
