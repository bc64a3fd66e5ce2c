// Requests and answers: connections kept, bytes in odd pieces, streams, clients that leave.
#include <nlohmann/json.hpp>
#include <thread>

#include "http/http_fixture.h"

namespace tenon::test {
namespace {

using ExchangeTest = HttpFixture;

TEST_F(ExchangeTest, KeepsAConnectionForManyRequests) {
  StartServer();
  RawClient client(server_->port());
  for (int i = 0; i < 20; ++i) {
    client.Send(Post("/echo", "body " + std::to_string(i)));
    const RawAnswer answer = client.ReadAnswer();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "body " + std::to_string(i));
    EXPECT_FALSE(answer.headers.contains("connection"));
  }
}

TEST_F(ExchangeTest, AnswersPipelinedRequestsInOrder) {
  StartServer();
  RawClient client(server_->port());
  std::string requests;
  for (int i = 0; i < 50; ++i)
    requests += Post("/echo", std::to_string(i)) + Get("/events?n=2");
  client.Send(requests);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(client.ReadAnswer().body, std::to_string(i));
    EXPECT_EQ(client.ReadAnswer().body, "data: 0\n\ndata: 1\n\n");
  }
}

TEST_F(ExchangeTest, TakesBytesOneByOne) {
  StartServer();
  RawClient client(server_->port());
  for (const char byte : "\r\n" + Post("/echo", "split", "X-Long: value\r\n"))
    ASSERT_TRUE(client.Send(std::string(1, byte)));
  EXPECT_EQ(client.ReadAnswer().body, "split");
}

TEST_F(ExchangeTest, TakesBigAndChunkedBodies) {
  StartServer();
  std::string big(5 << 20, 'x');
  for (size_t i = 0; i < big.size(); i += 997)
    big[i] = static_cast<char>('a' + i % 26);
  EXPECT_TRUE(Ask(Post("/echo", big)).body == big);
  EXPECT_EQ(Ask("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                "3\r\nabc\r\n5;ext=1\r\ndefgh\r\n0\r\nTrailer: x\r\n\r\n")
                .body,
            "abcdefgh");
}

TEST_F(ExchangeTest, AsksForTheBodyThatAClientHoldsBack) {
  StartServer();
  RawClient client(server_->port());
  client.Send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
      "Expect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.ReadHead().status, 100);
  client.Send("body");
  EXPECT_EQ(client.ReadAnswer().body, "body");
  client.Send(Get("/hello", "Expect: miracles\r\n"));
  EXPECT_EQ(client.ReadAnswer().status, 417);
}

TEST_F(ExchangeTest, AnswersHeadWithoutABody) {
  StartServer();
  RawClient client(server_->port());
  client.Send(
      "HEAD /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"
      "HEAD /events?n=3 HTTP/1.1\r\nHost: localhost\r\n\r\n" +
      Get("/hello"));
  EXPECT_EQ(client.ReadHead().headers["content-length"], "5");
  EXPECT_EQ(client.ReadHead().headers["content-type"], "text/event-stream");
  EXPECT_EQ(client.ReadAnswer().body, "hello");
}

TEST_F(ExchangeTest, SpeaksHttp10) {
  StartServer();
  RawClient client(server_->port());
  client.Send("GET /events?n=2 HTTP/1.0\r\n\r\n");
  RawAnswer answer = client.ReadHead();
  EXPECT_EQ(answer.status, 200);
  EXPECT_FALSE(answer.headers.contains("transfer-encoding"));
  EXPECT_EQ(client.ReadToEnd(), "data: 0\n\ndata: 1\n\n");

  RawClient kept(server_->port());
  for (int i = 0; i < 2; ++i) {
    kept.Send("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    answer = kept.ReadAnswer();
    EXPECT_EQ(answer.body, "hello");
    EXPECT_EQ(answer.headers["connection"], "keep-alive");
  }
}

TEST_F(ExchangeTest, ClosesWhenTheClientAsks) {
  StartServer();
  RawClient client(server_->port());
  client.Send(Get("/hello", "Connection: close\r\n"));
  RawAnswer answer = client.ReadAnswer();
  EXPECT_EQ(answer.headers["connection"], "close");
  EXPECT_EQ(client.ReadToEnd(), "");
}

TEST_F(ExchangeTest, AnswersAClientThatClosedItsSendingSide) {
  StartServer();
  RawClient client(server_->port());
  client.Send(Get("/hello") + Get("/events?n=1"));
  client.CloseSending();
  EXPECT_EQ(client.ReadAnswer().body, "hello");
  EXPECT_EQ(client.ReadAnswer().body, "data: 0\n\n");
  EXPECT_EQ(client.ReadToEnd(), "");
}

TEST_F(ExchangeTest, TellsTheHandlerThatTheClientLeft) {
  StartServer();
  for (int i = 1; i <= 3; ++i) {
    RawClient client(server_->port());
    client.Send(Get("/hold"));
    ASSERT_TRUE(held_.Reaches(i));
    auto writer = HeldWriter();
    if (i == 2)
      writer->BeginStream(200, "text/event-stream", {});
    if (i == 3)
      client.CloseSending();  // the handler asked, so a half-closed client counts as gone
    else
      client.Close();
    EXPECT_TRUE(closed_.Reaches(i));
  }
}

TEST_F(ExchangeTest, CallsALateOnCloseAtOnce) {
  StartServer();
  RawClient client(server_->port());
  client.Send(Get("/hold"));
  ASSERT_TRUE(held_.Reaches(1));
  client.Close();
  ASSERT_TRUE(closed_.Reaches(1));
  int calls = 0;
  auto writer = HeldWriter();
  writer->OnClose([&] { ++calls; });
  EXPECT_EQ(calls, 1);
  writer->Send({});  // does nothing
  EXPECT_EQ(writer->backlog(), 0U);
}

TEST_F(ExchangeTest, AnswersFromAnotherThread) {
  StartServer();
  RawClient client(server_->port());
  client.Send(Get("/hold"));
  ASSERT_TRUE(held_.Reaches(1));
  std::thread other([&] {
    auto writer = HeldWriter();
    writer->BeginStream(200, "text/event-stream", {{"X-Own", "a\r\nInjected: 1"}});
    for (int i = 0; i < 1000; ++i)
      writer->Write("data: " + std::to_string(i) + "\n\n");
    writer->End();
    writer->Write("after the end");
  });
  RawAnswer answer = client.ReadAnswer();
  other.join();
  std::string expected;
  for (int i = 0; i < 1000; ++i)
    expected += "data: " + std::to_string(i) + "\n\n";
  EXPECT_EQ(answer.body, expected);
  EXPECT_FALSE(answer.headers.contains("injected"));
  client.Send(Get("/hello"));
  EXPECT_EQ(client.ReadAnswer().body, "hello");
  EXPECT_EQ(closed_.count(), 0);
}

TEST_F(ExchangeTest, PingsWhileNothingElseIsWritten) {
  StartServer();
  RawClient client(server_->port());
  client.Send(Get("/hold"));
  ASSERT_TRUE(held_.Reaches(1));
  auto writer = HeldWriter();
  writer->KeepAlive(": ping\n\n", std::chrono::milliseconds(20));
  writer->BeginStream(200, "text/event-stream", {});
  for (int i = 0; i < 3; ++i)
    EXPECT_NE(client.ReadUntil(": ping\n\n").find(": ping\n\n"), std::string::npos);
  writer->Write("data: 1\n\n");
  EXPECT_NE(client.ReadUntil("data: 1\n\n").find("data: 1\n\n"), std::string::npos);
  writer->End();
  EXPECT_TRUE(client.ReadUntil("0\r\n\r\n").ends_with("0\r\n\r\n"));
}

TEST_F(ExchangeTest, ClosesAStreamWhoseReaderIsTooSlow) {
  HttpServerOptions options;
  options.max_backlog_bytes = 1 << 20;
  StartServer(options);
  RawClient client(server_->port());
  client.ShrinkReceiveBuffer();
  client.Send(Get("/hold"));
  ASSERT_TRUE(held_.Reaches(1));
  auto writer = HeldWriter();
  writer->BeginStream(200, "text/event-stream", {});
  const std::string chunk(64 << 10, 'x');
  for (int i = 0; i < 1000 && closed_.count() == 0; ++i)
    writer->Write(chunk);
  EXPECT_TRUE(closed_.Reaches(1));
  EXPECT_EQ(writer->backlog(), 0U);
}

TEST_F(ExchangeTest, TurnsFailedHandlersInto500) {
  StartServer();
  for (const char* path : {"/throw", "/drop"}) {
    const RawAnswer answer = Ask(Get(path));
    EXPECT_EQ(answer.status, 500) << path;
    const auto error = nlohmann::json::parse(answer.body).at("error");
    EXPECT_EQ(error.at("type"), "server_error");
    EXPECT_EQ(answer.body.find("secret"), std::string::npos);
  }
  RawClient client(server_->port());
  client.Send(Get("/drop-stream"));
  const std::string text = client.ReadToEnd();  // the connection ends without the last chunk
  EXPECT_NE(text.find("data: 1\n\n"), std::string::npos);
  EXPECT_FALSE(text.ends_with("0\r\n\r\n"));
}

}  // namespace
}  // namespace tenon::test
