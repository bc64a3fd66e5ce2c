// WebSocket sessions, TLS, and how a server stops.
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "http/http_fixture.h"

namespace tenon::test {
namespace {

using std::chrono::milliseconds;
using SocketTest = HttpFixture;

constexpr int kText = 1;
constexpr int kBinary = 2;
constexpr int kClose = 8;
constexpr int kPing = 9;
constexpr int kPong = 10;

int CloseCode(const RawClient::Frame& frame) {
  if (frame.opcode != kClose || frame.payload.size() < 2)
    return -1;
  return static_cast<unsigned char>(frame.payload[0]) << 8 |
         static_cast<unsigned char>(frame.payload[1]);
}

TEST_F(SocketTest, EchoesMessages) {
  StartServer();
  RawClient client(server_->port());
  ASSERT_TRUE(client.OpenWebSocket("/socket?greet=1"));
  EXPECT_EQ(client.ReadFrame().payload, "hello");
  for (const std::string& message : {std::string("short"), std::string(), std::string("日本"),
                                     std::string(300, 'x'), std::string(200'000, 'y')}) {
    ASSERT_TRUE(client.SendFrame(kText, message));
    const auto frame = client.ReadFrame();
    EXPECT_EQ(frame.opcode, kText);
    EXPECT_TRUE(frame.payload == message) << message.size();
  }
  client.SendFrame(kPing, "are you there");
  const auto pong = client.ReadFrame();
  EXPECT_EQ(pong.opcode, kPong);
  EXPECT_EQ(pong.payload, "are you there");
  client.SendFrame(kClose, std::string("\x03\xe8", 2));
  EXPECT_EQ(CloseCode(client.ReadFrame()), 1000);
  EXPECT_TRUE(sockets_closed_.Reaches(1));
}

TEST_F(SocketTest, ClosesWithTheRightCode) {
  HttpServerOptions options;
  options.max_body_bytes = 1000;
  StartServer(options);
  struct Case {
    int opcode;
    std::string message;
    int code;
  };
  const std::vector<Case> cases = {
      {kText, "close", 4001},   {kText, "throw", 1011},    {kText, std::string(1001, 'x'), 1009},
      {kBinary, "bytes", 1003}, {kText, "\xff\xfe", 1007}, {3, "reserved opcode", 1002},
  };
  int closed = 0;
  for (const Case& each : cases) {
    RawClient client(server_->port());
    ASSERT_TRUE(client.OpenWebSocket("/socket"));
    client.SendFrame(each.opcode, each.message);
    EXPECT_EQ(CloseCode(client.ReadFrame()), each.code) << each.message.substr(0, 20);
    client.SendFrame(kClose, std::string("\x03\xe8", 2));
    EXPECT_TRUE(sockets_closed_.Reaches(++closed));
  }
  RawClient gone(server_->port());
  ASSERT_TRUE(gone.OpenWebSocket("/socket"));
  gone.Close();
  EXPECT_TRUE(sockets_closed_.Reaches(closed + 1));
}

TEST_F(SocketTest, ChecksTheHandshake) {
  HttpServerOptions options;
  options.api_keys = {{"k", "key"}};
  StartServer(options);
  EXPECT_FALSE(RawClient(server_->port()).OpenWebSocket("/socket"));
  EXPECT_TRUE(RawClient(server_->port()).OpenWebSocket("/socket", "x-api-key: key\r\n"));
  EXPECT_FALSE(RawClient(server_->port())
                   .OpenWebSocket("/socket", "x-api-key: key\r\nOrigin: http://evil.example\r\n"));
  EXPECT_FALSE(RawClient(server_->port()).OpenWebSocket("/hello/x", "x-api-key: key\r\n"));
  RawAnswer plain = Ask(Get("/socket", "x-api-key: key\r\n"));
  EXPECT_EQ(plain.status, 426);
  EXPECT_EQ(plain.headers["upgrade"], "websocket");
}

TEST_F(SocketTest, UpgradesAfterOtherRequestsOnTheConnection) {
  StartServer();
  RawClient client(server_->port());
  client.Send(Get("/hello"));
  EXPECT_EQ(client.ReadAnswer().body, "hello");
  ASSERT_TRUE(client.OpenWebSocket("/socket"));
  client.SendFrame(kText, "x");
  EXPECT_EQ(client.ReadFrame().payload, "x");
}

// --- TLS ---

class Certificate {
 public:
  Certificate() {
    std::string pattern = std::filesystem::temp_directory_path() / "tenon-tls-XXXXXX";
    directory_ = mkdtemp(pattern.data());
    const std::string command =
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 "
        "-nodes -days 2 -subj /CN=localhost -keyout " +
        key() + " -out " + certificate() + " 2>/dev/null";
    made_ = std::system(command.c_str()) == 0;
  }
  ~Certificate() { std::filesystem::remove_all(directory_); }
  bool made() const { return made_; }
  std::string key() const { return directory_ / "key.pem"; }
  std::string certificate() const { return directory_ / "certificate.pem"; }

 private:
  std::filesystem::path directory_;
  bool made_ = false;
};

// Sends `request` over TLS and reads to the end. "" if the handshake fails; `clean_end` tells
// whether the end was announced, so that it can't have been cut.
std::string AskTls(uint16_t port, const std::string& request, bool& clean_end) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  std::string text;
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  SSL* ssl = SSL_new(context);
  if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
      SSL_set_fd(ssl, socket) == 1 && SSL_connect(ssl) == 1) {
    SSL_write(ssl, request.data(), static_cast<int>(request.size()));
    std::array<char, 4096> buffer;
    int got = 0;
    while ((got = SSL_read(ssl, buffer.data(), static_cast<int>(buffer.size()))) > 0)
      text.append(buffer.data(), static_cast<size_t>(got));
    clean_end = SSL_get_error(ssl, got) == SSL_ERROR_ZERO_RETURN;
  }
  SSL_free(ssl);
  SSL_CTX_free(context);
  ::close(socket);
  return text;
}

TEST_F(SocketTest, ServesTls) {
  const Certificate certificate;
  if (!certificate.made())
    GTEST_SKIP() << "the openssl program is missing";
  HttpServerOptions options;
  options.tls_certificate_file = certificate.certificate();
  options.tls_key_file = certificate.key();
  options.header_timeout = milliseconds(500);
  StartServer(options);
  const std::string close = "Connection: close\r\n";
  bool clean_end = false;
  EXPECT_TRUE(AskTls(server_->port(), Get("/hello", close), clean_end).ends_with("\r\n\r\nhello"));
  EXPECT_TRUE(clean_end);
  const std::string big(3 << 20, 'z');
  EXPECT_TRUE(AskTls(server_->port(), Post("/echo", big, close), clean_end).ends_with(big));
  EXPECT_TRUE(AskTls(server_->port(), Get("/events?n=3", close), clean_end)
                  .ends_with("data: 2\n\n\r\n0\r\n\r\n"));
  // Plain HTTP on the port, and a client that never shakes hands.
  EXPECT_EQ(Ask(Get("/hello")).status, 0);
  EXPECT_EQ(RawClient(server_->port()).ReadToEnd(), "");
}

TEST_F(SocketTest, NamesWhatIsWrongWithItsOptions) {
  const auto start = [](const HttpServerOptions& options) {
    auto server = HttpServer::Start(options, Router());
    return server.ok() ? std::string() : server.error().ToString();
  };
  HttpServerOptions options;
  options.tls_certificate_file = "/nowhere/c.pem";
  EXPECT_NE(start(options).find("certificate and a key"), std::string::npos);
  options.tls_key_file = "/nowhere/k.pem";
  EXPECT_NE(start(options).find("/nowhere/c.pem"), std::string::npos);
  StartServer();
  options = {};
  options.port = server_->port();
  EXPECT_NE(start(options).find("in use"), std::string::npos);
  options.host = "no.such.host.invalid";
  EXPECT_NE(start(options).find("no.such.host.invalid"), std::string::npos);
}

// --- Stop ---

TEST_F(SocketTest, StopWaitsForOpenAnswers) {
  StartServer();
  RawClient idle(server_->port());
  idle.Send(Get("/hello"));
  idle.ReadAnswer();
  RawClient client(server_->port());
  client.Send(Get("/hold") + Get("/hello"));
  ASSERT_TRUE(held_.Reaches(1));
  auto writer = HeldWriter();
  writer->BeginStream(200, "text/event-stream", {});
  RawClient socket(server_->port());
  ASSERT_TRUE(socket.OpenWebSocket("/socket"));
  socket_busy_ = true;
  const uint16_t port = server_->port();
  std::thread stopping([&] { server_->Stop(milliseconds(20'000)); });
  EXPECT_EQ(idle.ReadToEnd(), "");  // closed at once: nothing is open there
  socket.SendFrame(kText, "still served");
  EXPECT_EQ(socket.ReadFrame().payload, "still served");
  writer->Write("data: last\n\n");
  writer->End();
  EXPECT_EQ(client.ReadAnswer().body, "data: last\n\n");
  EXPECT_EQ(client.ReadToEnd(), "");  // no further request is taken
  socket_busy_ = false;
  EXPECT_EQ(CloseCode(socket.ReadFrame()), 1001);
  socket.SendFrame(kClose, std::string("\x03\xe9", 2));
  stopping.join();
  EXPECT_FALSE(RawClient(port).connected());
  EXPECT_EQ(closed_.count(), 0);
}

TEST_F(SocketTest, StopEndsWhatIsOpenWhenTheTimeIsOver) {
  StartServer();
  RawClient held(server_->port());
  held.Send(Get("/hold"));
  RawClient socket(server_->port());
  ASSERT_TRUE(socket.OpenWebSocket("/socket?greet=1"));
  EXPECT_EQ(socket.ReadFrame().payload, "hello");  // the handler knows of the connection
  ASSERT_TRUE(held_.Reaches(1));
  socket_busy_ = true;
  auto writer = HeldWriter();
  server_->Stop(milliseconds(0));
  EXPECT_TRUE(closed_.Reaches(1));
  EXPECT_TRUE(sockets_closed_.Reaches(1));
  EXPECT_EQ(held.ReadToEnd(), "");
  server_.reset();
  writer->Send({});  // outlives the server
}

TEST_F(SocketTest, SurvivesManyClientsThatLeave) {
  HttpServerOptions options;
  options.io_threads = 2;
  StartServer(options);
  const std::vector<std::string> requests = {
      Get("/events?n=100"), Get("/hold"),
      Get("/drop"),         Get("/hello") + Get("/events?n=5"),
      "GET /hel",           Post("/echo", std::string(100'000, 'x')),
      Get("/drop-stream")};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 250; ++i) {
        RawClient client(server_->port());
        const std::string& request = requests[(i + static_cast<size_t>(t)) % requests.size()];
        client.Send(request);
        if (i % 3 == 0 && (request.starts_with("GET /events") || request.starts_with("POST")))
          client.ReadBytes(i % 50);
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(Ask(Get("/hello")).body, "hello");
  EXPECT_TRUE(closed_.Reaches(held_.count()));
}

}  // namespace
}  // namespace tenon::test
