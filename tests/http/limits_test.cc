// Who and what is refused, and how: limits, malformed requests, routes, keys, hosts, origins.
#include <nlohmann/json.hpp>

#include "http/http_fixture.h"

namespace tenon::test {
namespace {

using std::chrono::milliseconds;
using LimitsTest = HttpFixture;

std::string ErrorType(const RawAnswer& answer) {
  const auto body = nlohmann::json::parse(answer.body, nullptr, false);
  if (body.is_discarded() || !body.contains("error"))
    return "no error JSON: " + answer.body;
  const auto& error = body["error"];
  for (const char* field : {"message", "type", "param", "code"})
    EXPECT_TRUE(error.contains(field)) << field;
  return error.value("type", "");
}

TEST_F(LimitsTest, RefusesMalformedRequests) {
  StartServer();
  const std::string host = "Host: localhost\r\n";
  const std::vector<std::pair<std::string, int>> cases = {
      {"nonsense\r\n\r\n", 400},
      {"GET\r\n\r\n", 400},
      {"GET /hello HTTP/9.9\r\n" + host + "\r\n", 400},
      {"GET /hello HTTP/1.1\r\n\r\n", 400},                     // no Host
      {"GET /hello HTTP/1.1\r\n" + host + host + "\r\n", 400},  // two
      {"GET /hello HTTP/1.1\r\n" + host + "no colon\r\n\r\n", 400},
      {"GET /hello HTTP/1.1\r\n" + host + "Bad Name: x\r\n\r\n", 400},
      {"GET hello HTTP/1.1\r\n" + host + "\r\n", 400},
      {Get("/items/%zz"), 400},
      {Get("/items/%0"), 400},
      {Get("/items/a%00b"), 400},
      {Get("/hello?x=%g1"), 400},
      {"POST /echo HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n", 400},
      {"POST /echo HTTP/1.1\r\n" + host + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
       400},
      {"POST /echo HTTP/1.1\r\n" + host + "Content-Length: 99999999999999999999\r\n\r\n", 400},
      {"POST /echo HTTP/1.1\r\n" + host +
           "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       400},
      {"POST /echo HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip\r\n\r\n", 501},
      {"POST /echo HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked, gzip\r\n\r\n", 501},
      {"POST /echo HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n", 400},
      {"POST /echo HTTP/1.1\r\n" + host +
           "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc\r\n",
       400},
      {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 15), 400},  // TLS
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
      {std::string("GET /he\0llo HTTP/1.1\r\n", 22) + host + "\r\n", 400},
  };
  for (const auto& [request, status] : cases) {
    const RawAnswer answer = Ask(request);
    EXPECT_EQ(answer.status, status) << request;
    EXPECT_EQ(ErrorType(answer), "invalid_request_error") << request;
  }
  EXPECT_EQ(Ask(Get("/hello")).body, "hello");
}

TEST_F(LimitsTest, LimitsSizes) {
  HttpServerOptions options;
  options.max_body_bytes = 1000;
  options.max_header_bytes = 2000;
  StartServer(options);
  EXPECT_EQ(Ask(Post("/echo", std::string(1000, 'x'))).status, 200);
  EXPECT_EQ(Ask(Post("/echo", std::string(1001, 'x'))).status, 413);
  EXPECT_EQ(Ask(Post("/echo", std::string(3 << 20, 'x'))).status, 413);
  EXPECT_EQ(Ask("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                "400\r\n" +
                std::string(1024, 'x') + "\r\n0\r\n\r\n")
                .status,
            413);
  EXPECT_EQ(Ask(Get("/hello", "X: " + std::string(1900, 'x') + "\r\n")).status, 200);
  EXPECT_EQ(Ask(Get("/hello", "X: " + std::string(2000, 'x') + "\r\n")).status, 431);
  EXPECT_EQ(Ask(Get("/" + std::string(5000, 'x'))).status, 431);
  std::string many;
  for (int i = 0; i < 500; ++i)
    many += "X-" + std::to_string(i) + ": 1\r\n";
  EXPECT_EQ(Ask(Get("/hello", many)).status, 431);
  // Also when each header comes alone.
  RawClient client(server_->port());
  client.Send("GET /hello HTTP/1.1\r\nHost: localhost\r\n");
  for (int i = 0; i < 500 && client.Send("X-" + std::to_string(i) + ": 1\r\n"); ++i) {
  }
  EXPECT_EQ(client.ReadAnswer().status, 431);
}

TEST_F(LimitsTest, GivesUpOnSlowClients) {
  HttpServerOptions options;
  options.header_timeout = milliseconds(100);
  options.body_timeout = milliseconds(100);
  options.idle_timeout = milliseconds(100);
  StartServer(options);
  RawClient silent(server_->port());
  EXPECT_EQ(silent.ReadToEnd(), "");
  RawClient header(server_->port());
  header.Send("GET /hello HTTP/1.1\r\nHo");
  EXPECT_EQ(header.ReadAnswer().status, 408);
  RawClient body(server_->port());
  body.Send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(body.ReadAnswer().status, 408);
  RawClient idle(server_->port());
  idle.Send(Get("/hello"));
  EXPECT_EQ(idle.ReadAnswer().body, "hello");
  EXPECT_EQ(idle.ReadToEnd(), "");
}

TEST_F(LimitsTest, RefusesConnectionsAboveTheLimit) {
  HttpServerOptions options;
  options.max_connections = 2;
  StartServer(options);
  {
    RawClient one(server_->port());
    RawClient two(server_->port());
    one.Send(Get("/hello"));
    two.Send(Get("/hello"));
    EXPECT_EQ(one.ReadAnswer().status, 200);
    EXPECT_EQ(two.ReadAnswer().status, 200);
    RawAnswer refused = Ask(Get("/hello"));
    EXPECT_EQ(refused.status, 503);
    EXPECT_EQ(refused.headers["retry-after"], "1");
  }
  int status = 503;
  for (int i = 0; i < 10000 && status != 200; ++i)
    status = Ask(Get("/hello")).status;
  EXPECT_EQ(status, 200);
}

TEST_F(LimitsTest, RoutesByPathAndMethod) {
  StartServer();
  EXPECT_EQ(Ask(Get("/items/org%2Fmodel?q=a+b%20c", "X-Request-Id: abc-1\r\n")).body,
            "org/model|a b c||abc-1");
  EXPECT_EQ(Ask(Get("/items/first")).body, "literal");
  EXPECT_EQ(Ask(Get("http://localhost/hello")).body, "hello");
  EXPECT_EQ(Ask(Get("http://evil.example/hello")).status, 403);
  for (const char* path : {"/", "/nothing", "/hello/", "/items", "/items/", "/items/a/b"}) {
    const RawAnswer unknown = Ask(Get(path));
    EXPECT_EQ(unknown.status, 404) << path;
    EXPECT_EQ(ErrorType(unknown), "invalid_request_error");
  }
  RawAnswer wrong = Ask(Post("/hello", ""));
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers["allow"], "GET, HEAD, OPTIONS");
  EXPECT_EQ(ErrorType(wrong), "invalid_request_error");
  EXPECT_EQ(Ask("CONNECT a.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 405);
  EXPECT_EQ(Ask("OPTIONS /echo HTTP/1.1\r\nHost: localhost\r\n\r\n").headers["allow"],
            "OPTIONS, POST");
  EXPECT_EQ(Ask("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 204);
  RawAnswer id = Ask(Get("/hello", "X-Request-Id: bad id;\r\n"));
  EXPECT_EQ(id.headers["x-request-id"].size(), 32U);
}

TEST_F(LimitsTest, AsksForKeys) {
  HttpServerOptions options;
  options.api_keys = {{"alice", "key-a"}, {"bob", "key-b"}};
  StartServer(options);
  for (const char* path : {"/hello", "/items/1", "/unknown", "/socket", "/health/x"}) {
    const RawAnswer denied = Ask(Get(path));
    EXPECT_EQ(denied.status, 401) << path;
    EXPECT_EQ(ErrorType(denied), "authentication_error");
  }
  for (const char* wrong : {"Authorization: Bearer key-c", "Authorization: Bearer key-aa",
                            "Authorization: Bearer key", "Authorization: Bearer",
                            "x-api-key: ", "Authorization: Basic key-a", "Authorization: key-a"})
    EXPECT_EQ(Ask(Get("/hello", std::string(wrong) + "\r\n")).status, 401) << wrong;
  EXPECT_EQ(Ask(Post("/echo", "unread body")).status, 401);
  EXPECT_EQ(Ask("OPTIONS /hello HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 401);
  EXPECT_EQ(Ask(Get("/health")).body, "ok");
  EXPECT_EQ(Ask(Get("/items/1", "Authorization: Bearer key-a\r\nX-Request-Id: r\r\n")).body,
            "1||alice|r");
  EXPECT_EQ(Ask(Get("/items/1", "authorization: bearer key-b\r\nX-Request-Id: r\r\n")).body,
            "1||bob|r");
  EXPECT_EQ(Ask(Get("/items/1", "x-api-key: key-b\r\nX-Request-Id: r\r\n")).body, "1||bob|r");
}

TEST_F(LimitsTest, ChecksTheHost) {
  HttpServerOptions options;
  options.allowed_hosts = {"Tenon.example"};
  StartServer(options);
  const auto status = [&](const std::string& host) {
    return Ask("GET /hello HTTP/1.1\r\nHost: " + host + "\r\n\r\n").status;
  };
  for (const char* good : {"localhost", "LOCALHOST:80", "127.0.0.1:1", "127.9.9.9", "[::1]:8080",
                           "tenon.example", "a.localhost", "localhost.", "tenon.example:99"})
    EXPECT_EQ(status(good), 200) << good;
  for (const char* bad : {"evil.example", "localhost.evil.example", "127.evil.example", "1.2.3.4",
                          "evil.example:80", "", "x.tenon.example", "[::2]"})
    EXPECT_EQ(status(bad), 403) << bad;
  options.allowed_hosts = {"*"};
  StartServer(options);
  EXPECT_EQ(status("evil.example"), 200);
}

TEST_F(LimitsTest, KeepsForeignPagesOut) {
  StartServer();
  for (const char* origin : {"http://evil.example", "null", "http://localhost:1"}) {
    RawAnswer answer = Ask(Get("/hello", "Origin: " + std::string(origin) + "\r\n"));
    EXPECT_EQ(answer.status, 403) << origin;
    EXPECT_FALSE(answer.headers.contains("access-control-allow-origin"));
  }
  EXPECT_EQ(Ask(Get("/hello", "Origin: http://localhost\r\n")).status, 200);  // our own page

  HttpServerOptions options;
  options.cors_origins = {"https://app.example"};
  options.api_keys = {{"k", "key"}};
  StartServer(options);
  const std::string preflight =
      "OPTIONS /echo HTTP/1.1\r\nHost: localhost\r\nAccess-Control-Request-Method: POST\r\n"
      "Access-Control-Request-Headers: authorization\r\nOrigin: ";
  RawAnswer answer = Ask(preflight + "https://app.example\r\n\r\n");
  EXPECT_EQ(answer.status, 204);
  EXPECT_EQ(answer.headers["access-control-allow-origin"], "https://app.example");
  EXPECT_EQ(answer.headers["access-control-allow-headers"], "authorization");
  EXPECT_EQ(Ask(preflight + "https://evil.example\r\n\r\n").status, 403);
  answer = Ask(Get("/hello", "Origin: https://app.example\r\nx-api-key: key\r\n"));
  EXPECT_EQ(answer.body, "hello");
  EXPECT_EQ(answer.headers["access-control-allow-origin"], "https://app.example");
}

}  // namespace
}  // namespace tenon::test
