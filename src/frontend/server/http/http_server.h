// HttpServer: HTTP/1.1 with streamed answers, server-sent events and WebSocket on one port, without
// Boost in the header. Knows nothing of models.
//
// Limits and checks come before any handler: sizes and times, the Host allow-list, API keys, CORS.
// Source of the formats: RFC 9112 (HTTP/1.1), RFC 6455 (WebSocket), WHATWG HTML 9.2 (SSE).
//
// Threading: handlers are called on the server's I/O threads and must not block for long; writers
// and sockets may be used from any thread. After Stop returned no handler runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tenon {

// Names compare without regard to case.
struct HeaderLess {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const;
};
using HttpHeaders = std::multimap<std::string, std::string, HeaderLess>;

struct HttpRequest {
  std::string method;  // upper case
  std::string path;    // decoded, without the query
  std::string target;  // path and query as they came
  std::map<std::string, std::string> query;
  std::map<std::string, std::string> parameters;  // {name} parts of the route's pattern
  HttpHeaders headers;
  std::string body;
  std::string remote_address;
  std::string request_id;  // X-Request-Id of the client when it is plain text, or a new one
  std::string key_name;    // which API key was used (never the key); empty without keys
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  HttpHeaders headers;
};

// The answer to one request: either Send once, or BeginStream, Write any number of times, End.
// Calls after the client has gone, or after the end, do nothing. Dropping the last reference
// without an answer sends 500; in the middle of a stream it closes the connection.
class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;
  virtual void Send(HttpResponse response) = 0;
  virtual void BeginStream(int status, std::string content_type, HttpHeaders headers) = 0;
  virtual void Write(std::string chunk) = 0;  // whole pieces, such as one SSE event
  virtual void End() = 0;
  // `ping` is written when nothing else was for `interval`; for SSE a comment.
  virtual void KeepAlive(std::string ping, std::chrono::milliseconds interval) = 0;
  // Called once, when the client closes before the end. At once when it has gone already.
  virtual void OnClose(std::function<void()> callback) = 0;
  // Bytes that the client has not taken yet: a slow reader's backlog.
  virtual size_t backlog() const = 0;
};
using HttpHandler = std::function<void(HttpRequest, std::shared_ptr<ResponseWriter>)>;

// One WebSocket connection. Text messages only.
class WebSocketConnection {
 public:
  virtual ~WebSocketConnection() = default;
  virtual void Send(std::string message) = 0;
  virtual void Close(uint16_t code, std::string reason) = 0;
  virtual size_t backlog() const = 0;
};
class WebSocketHandler {
 public:
  virtual ~WebSocketHandler() = default;
  virtual void OnOpen(const HttpRequest& request, std::shared_ptr<WebSocketConnection> socket) = 0;
  virtual void OnMessage(std::string message) = 0;
  virtual void OnClose() = 0;
  // True while answers are open: Stop waits for them.
  virtual bool busy() const { return false; }
};
using WebSocketFactory = std::function<std::unique_ptr<WebSocketHandler>()>;

// Patterns are paths whose {name} parts match one segment: "/v1/models/{id}"; a last part {name...}
// matches one or more. Of several that match, the one with fewer such parts is taken. A path that
// is known with another method answers 405 with Allow, an unknown one 404; both as the API's error
// JSON. HEAD is answered as GET without the body.
class Router {
 public:
  enum class Access : uint8_t { kKey, kPublic };  // kPublic: no API key asked (health)

  void Add(std::string method, std::string pattern, HttpHandler handler,
           Access access = Access::kKey);
  void AddWebSocket(std::string pattern, WebSocketFactory factory, Access access = Access::kKey);

 private:
  friend class RouteTable;
  struct Route {
    std::string method;
    std::string pattern;
    HttpHandler handler;
    WebSocketFactory web_socket;
    Access access = Access::kKey;
  };
  std::vector<Route> routes_;
};

struct ApiKey {
  std::string name;  // for logs and fairness
  std::string key;
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 0;  // 0: any free one
  int io_threads = 1;
  size_t max_body_bytes = 16 << 20;
  size_t max_header_bytes = 32 << 10;
  size_t max_connections = 1024;
  size_t max_backlog_bytes = 8 << 20;  // a stream whose client is further behind is closed
  std::chrono::milliseconds header_timeout{10'000};  // slowloris
  std::chrono::milliseconds body_timeout{60'000};
  std::chrono::milliseconds idle_timeout{75'000};   // between two requests of a connection
  std::chrono::milliseconds write_timeout{60'000};  // a client that takes nothing for this long
  std::vector<ApiKey> api_keys;                     // empty: no key asked
  // Beside loopback names and the bound address; "*": any (DNS rebinding is then the user's risk).
  std::vector<std::string> allowed_hosts;
  std::vector<std::string> cors_origins;  // empty: CORS off
  std::string tls_certificate_file;       // PEM; both empty: plain HTTP
  std::string tls_key_file;
};

class HttpServer {
 public:
  // Binds and starts to serve. Fails for an address that is taken or unknown and for TLS files that
  // don't fit.
  static Result<std::unique_ptr<HttpServer>> Start(const HttpServerOptions& options, Router router);
  virtual ~HttpServer() = default;  // Stop(0)

  virtual uint16_t port() const = 0;
  // Accepts no more connections and requests; returns when open answers are written or the time is
  // over, then closes what is left. Not to be called from a handler.
  virtual void Stop(std::chrono::milliseconds limit) = 0;
  // For the requests that come from now on; open ones go on. None: no key is asked.
  virtual void ReplaceKeys(const std::vector<ApiKey>& keys) = 0;
};

// The error body that OpenAI's clients expect: {"error":{"message","type","param","code"}}.
HttpResponse ErrorResponse(int status, std::string_view message, std::string_view type,
                           std::string_view param = {}, std::string_view code = {});

}  // namespace tenon
