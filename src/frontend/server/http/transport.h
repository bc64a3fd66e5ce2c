// Transport: a connected byte stream, TCP or TLS, behind one interface, so that what is built on it
// (HTTP, WebSocket, the gateway's client) is compiled once.
//
// Threading: on the executor's strand. One read and one write may be under way at a time.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"

namespace boost::asio::ssl {
class context;
}

namespace tenon {

namespace asio = boost::asio;

class Transport {
 public:
  using ErrorCode = boost::system::error_code;
  using Done = std::function<void(ErrorCode, size_t)>;
  using Shaken = std::function<void(ErrorCode)>;

  virtual ~Transport() = default;
  virtual asio::any_io_executor executor() = 0;
  // Agrees on TLS; at once done for TCP.
  virtual void Handshake(Shaken done) = 0;
  // Some bytes, at least one. The buffers must live until `done` is called.
  virtual void Read(asio::mutable_buffer buffer, Done done) = 0;
  virtual void Write(asio::const_buffer buffer, Done done) = 0;
  // Tells the peer that no more is sent. `done` is called even when that fails.
  virtual void ShutDown(Shaken done) = 0;
  // Ends everything under way with an error. May be called again.
  virtual void Close() = 0;
};

std::unique_ptr<Transport> MakeTcpTransport(asio::ip::tcp::socket socket);
std::unique_ptr<Transport> MakeTlsServerTransport(asio::ip::tcp::socket socket,
                                                  asio::ssl::context& context);
// Checks the certificate against `host` and the system's authorities.
std::unique_ptr<Transport> MakeTlsClientTransport(asio::ip::tcp::socket socket,
                                                  asio::ssl::context& context,
                                                  const std::string& host);

// True if the peer closed its side in order.
bool IsEndOfStream(const boost::system::error_code& error);

// A context of a server: TLS 1.2 and later, with the certificate chain and key of the PEM files.
Result<std::shared_ptr<asio::ssl::context>> MakeTlsServerContext(const std::string& certificate,
                                                                 const std::string& key);
// A context of a client. `ca_file` empty: the system's authorities.
Result<std::shared_ptr<asio::ssl::context>> MakeTlsClientContext(const std::string& ca_file);

}  // namespace tenon
