// Many requests over one WebSocket.
#include <gmock/gmock.h>

#include "api/fake_server.h"
#include "frontend/server/api/web_socket_api.h"

namespace tenon::testing {
namespace {

class FakeSocket final : public WebSocketConnection {
 public:
  void Send(std::string message) override { messages.push_back(Json::parse(message)); }
  void Close(uint16_t code, std::string) override { closed = code; }
  size_t backlog() const override { return bytes_behind; }

  std::vector<Json> messages;
  uint16_t closed = 0;
  size_t bytes_behind = 0;
};

class WebSocketTest : public ApiTest {
 protected:
  WebSocketTest() {
    handler_ = MakeWebSocketApi(context_)();
    handler_->OnOpen({}, socket_);
  }
  void Ask(const char* text) { handler_->OnMessage(text); }

  std::shared_ptr<FakeSocket> socket_ = std::make_shared<FakeSocket>();
  std::unique_ptr<WebSocketHandler> handler_;
};

TEST_F(WebSocketTest, ManyRequestsOnOneConnection) {
  Ask(R"({"id":"a","type":"completion","request":{"prompt":"x","stream":true}})");
  Ask(R"({"id":"b","type":"completion","request":{"prompt":"y"}})");
  engine_.Answer(1, {"B"});
  engine_.Answer(0, {"A"});
  ASSERT_GE(socket_->messages.size(), 4U);
  EXPECT_EQ(socket_->messages[0]["id"], "b");
  EXPECT_EQ(socket_->messages[0]["type"], "answer");
  EXPECT_EQ(socket_->messages[0]["data"]["choices"][0]["text"], "B");
  EXPECT_EQ(socket_->messages[1], Json({{"id", "b"}, {"type", "done"}}));
  EXPECT_EQ(socket_->messages[2]["type"], "chunk");
  EXPECT_EQ(socket_->messages.back(), Json({{"id", "a"}, {"type", "done"}}));
}

TEST_F(WebSocketTest, CancelByIdAndReuseOfTheId) {
  Ask(R"({"id":"a","type":"completion","request":{"prompt":"x"}})");
  Ask(R"({"id":"a","type":"completion","request":{"prompt":"x"}})");
  EXPECT_EQ(socket_->messages.back()["error"]["param"], "id");
  Ask(R"({"id":"a","type":"cancel"})");
  EXPECT_THAT(engine_.cancelled, ::testing::ElementsAre(1));
  engine_.Fail(0, MakeError(ErrorCode::kCancelled, "cancelled"));
  EXPECT_EQ(socket_->messages.back()["type"], "error");
  EXPECT_EQ(socket_->messages.back()["error"]["type"], "cancelled");
  Ask(R"({"id":"a","type":"completion","request":{"prompt":"x"}})");
  EXPECT_EQ(engine_.submitted.size(), 2U);
}

TEST_F(WebSocketTest, AFullQueueSaysWhenToComeAgain) {
  engine_.refusal = MakeError(ErrorCode::kResourceExhausted, "full");
  Ask(R"({"id":"a","type":"completion","request":{"prompt":"x"}})");
  EXPECT_EQ(socket_->messages.back()["status"], 429);
  EXPECT_EQ(socket_->messages.back()["retry_after"], 1);
  engine_.refusal.reset();
  Ask(R"({"id":"a","type":"completion","request":{"prompt":"x"}})");  // the id is free again
  EXPECT_EQ(engine_.submitted.size(), 1U);
  engine_.Fail(0, MakeError(ErrorCode::kCancelled, "the deadline has passed"));
  EXPECT_EQ(socket_->messages.back()["status"], 504);
  EXPECT_FALSE(socket_->messages.back().contains("retry_after"));
}

TEST_F(WebSocketTest, ClosingCancelsEverything) {
  Ask(R"({"id":"a","type":"completion","request":{"prompt":"x"}})");
  Ask(R"({"id":"b","type":"chat","request":{"messages":[{"role":"user","content":"x"}]}})");
  handler_->OnClose();
  EXPECT_THAT(engine_.cancelled, ::testing::UnorderedElementsAre(1, 2));
}

TEST_F(WebSocketTest, WrongMessagesAreAnsweredNotFatal) {
  for (const char* text : {"{", "[]", R"({"type":"chat"})", R"({"id":"a","type":"dance"})",
                           R"({"id":"a","type":"chat"})", R"({"id":5,"type":"chat"})",
                           R"({"id":"a","type":"chat","request":{"messages":5}})"}) {
    Ask(text);
    EXPECT_EQ(socket_->messages.back()["type"], "error") << text;
    EXPECT_EQ(socket_->messages.back()["status"], 400) << text;
  }
  Ask(R"({"id":"a","type":"completion","request":{"prompt":"x"}})");
  EXPECT_EQ(engine_.submitted.size(), 1U);
}

TEST_F(WebSocketTest, ClientTooFarBehindIsClosed) {
  Ask(R"({"id":"a","type":"completion","request":{"prompt":"x","stream":true}})");
  socket_->bytes_behind = 100 << 20;
  engine_.Start(0);
  engine_.Text(0, "x");
  EXPECT_EQ(socket_->closed, 1008);
}

}  // namespace
}  // namespace tenon::testing
