#include "frontend/server/http/transport.h"

#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <utility>

namespace tenon {
namespace {

namespace ssl = asio::ssl;
using asio::ip::tcp;

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(tcp::socket socket) : socket_(std::move(socket)) {}

  asio::any_io_executor executor() override { return socket_.get_executor(); }
  void Handshake(Shaken done) override {
    asio::post(socket_.get_executor(), [done = std::move(done)] { done({}); });
  }
  void Read(asio::mutable_buffer buffer, Done done) override {
    socket_.async_read_some(buffer, std::move(done));
  }
  void Write(asio::const_buffer buffer, Done done) override {
    socket_.async_write_some(buffer, std::move(done));
  }
  void ShutDown(Shaken done) override {
    ErrorCode error;
    socket_.shutdown(tcp::socket::shutdown_send, error);
    asio::post(socket_.get_executor(), [done = std::move(done), error] { done(error); });
  }
  void Close() override {
    ErrorCode ignored;
    socket_.close(ignored);
  }

 private:
  tcp::socket socket_;
};

class TlsTransport final : public Transport {
 public:
  TlsTransport(tcp::socket socket, ssl::context& context, ssl::stream_base::handshake_type side)
      : stream_(std::move(socket), context), side_(side) {}

  // Asks for `host`'s certificate and for no other.
  void Expect(const std::string& host) {
    SSL_set_tlsext_host_name(stream_.native_handle(), host.c_str());
    stream_.set_verify_callback(ssl::host_name_verification(host));
  }

  asio::any_io_executor executor() override { return stream_.get_executor(); }
  void Handshake(Shaken done) override { stream_.async_handshake(side_, std::move(done)); }
  void Read(asio::mutable_buffer buffer, Done done) override {
    stream_.async_read_some(buffer, std::move(done));
  }
  void Write(asio::const_buffer buffer, Done done) override {
    stream_.async_write_some(buffer, std::move(done));
  }
  // Sends close_notify and does not wait for the peer's, which TLS does not ask for. Asio's
  // operation does wait, until Close: it holds `done` so that the stream outlives it.
  void ShutDown(Shaken done) override {
    auto shared = std::make_shared<Shaken>(std::move(done));
    stream_.async_shutdown([shared](ErrorCode) {});
    asio::post(stream_.get_executor(), [shared] { (*shared)({}); });
  }
  void Close() override {
    ErrorCode ignored;
    stream_.lowest_layer().close(ignored);
  }

 private:
  ssl::stream<tcp::socket> stream_;
  ssl::stream_base::handshake_type side_;
};

std::shared_ptr<ssl::context> MakeContext(ssl::context::method method) {
  auto context = std::make_shared<ssl::context>(method);
  context->set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 |
                       ssl::context::no_sslv3 | ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1 |
                       ssl::context::single_dh_use);
  return context;
}

}  // namespace

std::unique_ptr<Transport> MakeTcpTransport(tcp::socket socket) {
  return std::make_unique<TcpTransport>(std::move(socket));
}

std::unique_ptr<Transport> MakeTlsServerTransport(tcp::socket socket, ssl::context& context) {
  return std::make_unique<TlsTransport>(std::move(socket), context, ssl::stream_base::server);
}

std::unique_ptr<Transport> MakeTlsClientTransport(tcp::socket socket, ssl::context& context,
                                                  const std::string& host) {
  auto transport =
      std::make_unique<TlsTransport>(std::move(socket), context, ssl::stream_base::client);
  transport->Expect(host);
  return transport;
}

bool IsEndOfStream(const boost::system::error_code& error) {
  return error == asio::error::eof || error == ssl::error::stream_truncated;
}

Result<std::shared_ptr<ssl::context>> MakeTlsServerContext(const std::string& certificate,
                                                           const std::string& key) {
  boost::system::error_code error;
  auto context = MakeContext(ssl::context::tls_server);
  context->use_certificate_chain_file(certificate, error);
  if (error)
    return InvalidArgument("not a PEM certificate: " + error.message(), certificate);
  context->use_private_key_file(key, ssl::context::pem, error);
  if (error)
    return InvalidArgument("not the PEM key of the certificate: " + error.message(), key);
  return context;
}

Result<std::shared_ptr<ssl::context>> MakeTlsClientContext(const std::string& ca_file) {
  boost::system::error_code error;
  auto context = MakeContext(ssl::context::tls_client);
  context->set_verify_mode(ssl::verify_peer);
  if (ca_file.empty())
    context->set_default_verify_paths(error);
  else
    context->load_verify_file(ca_file, error);
  if (error)
    return InvalidArgument("no certificate authorities: " + error.message(), ca_file);
  return context;
}

}  // namespace tenon
