// The gateway between raw clients and fake replicas: routing, streams, failures, limits, reloads.
#include "frontend/gateway/gateway.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "gateway/fake_replica.h"
#include "http/raw_client.h"

namespace tenon::test {
namespace {

using Mode = FakeReplica::Mode;
using std::chrono::milliseconds;

const std::string kChat = "/v1/chat/completions";

std::string Body(const std::string& model, const std::string& text = "hi", bool stream = false) {
  nlohmann::json body = {{"model", model}, {"messages", {{{"role", "user"}, {"content", text}}}}};
  if (stream)
    body["stream"] = true;
  return body.dump();
}

class GatewayTest : public ::testing::Test {
 protected:
  static GatewayConfig ConfigOf(const std::vector<FakeReplica*>& replicas) {
    GatewayConfig config;
    config.health.interval = milliseconds(20);
    for (const FakeReplica* replica : replicas) {
      auto address = ParseReplicaUrl(replica->url(), "test");
      EXPECT_TRUE(address.ok());
      config.replicas.push_back(*address);
    }
    return config;
  }
  void Start(const GatewayConfig& config) {
    auto gateway = Gateway::Start(config);
    ASSERT_TRUE(gateway.ok()) << gateway.error().ToString();
    gateway_ = *std::move(gateway);
    ASSERT_TRUE(UpReaches(config.replicas.size()));
  }
  RawAnswer Ask(const std::string& request) {
    RawClient client(gateway_->port());
    client.Send(request);
    return client.ReadAnswer();
  }
  RawAnswer Chat(const std::string& body) { return Ask(Post(kChat, body)); }
  bool UpReaches(size_t count) {
    return Eventually([&] {
      const auto health = nlohmann::json::parse(Ask(Get("/health")).body, nullptr, false);
      return health.is_object() && health.value("replicas_up", size_t{99}) == count;
    });
  }
  std::string Metrics() { return Ask(Get("/metrics")).body; }

  std::unique_ptr<Gateway> gateway_;
};

TEST_F(GatewayTest, RoutesByModel) {
  FakeReplica a("model-a");
  FakeReplica b("org/model-b");
  Start(ConfigOf({&a, &b}));
  EXPECT_EQ("http://127.0.0.1:" + Chat(Body("model-a")).body, a.url());
  EXPECT_EQ("http://127.0.0.1:" + Chat(Body("org/model-b")).body, b.url());
  EXPECT_EQ(Chat("not JSON").status, 200);  // the replica's to judge
  const RawAnswer unknown = Chat(Body("model-c"));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(nlohmann::json::parse(unknown.body)["error"]["code"], "model_not_found");
  const auto models = nlohmann::json::parse(Ask(Get("/v1/models")).body);
  ASSERT_EQ(models["data"].size(), 2U);
  EXPECT_EQ(models["data"][1]["id"], "org/model-b");
  EXPECT_EQ(nlohmann::json::parse(Ask(Get("/v1/models/org/model-b")).body)["owned_by"], "x");
  EXPECT_EQ(Ask(Get("/v1/models/none")).status, 404);
  EXPECT_EQ(Ask(Get("/nothing?x=1")).status, 404);  // the replica's own 404
}

TEST_F(GatewayTest, PassesHeadersOn) {
  FakeReplica replica("m", "replica-key");
  GatewayConfig config = ConfigOf({&replica});
  config.replicas[0].api_key = "replica-key";
  config.server.api_keys = {{"alice", "client-key"}};
  Start(config);
  EXPECT_EQ(Chat(Body("m")).status, 401);
  const RawAnswer answer =
      Ask(Post(kChat + "?a=%20b", Body("m"),
               "x-api-key: client-key\r\nX-Request-Id: id-7\r\nX-Mine: 1\r\nX-Hop: 1\r\n"
               "Connection: keep-alive, X-Hop\r\nTE: trailers\r\n"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("x-request-id"), "id-7");
  EXPECT_EQ(answer.headers.at("x-own"), "1");
  EXPECT_FALSE(answer.headers.contains("keep-alive"));
  const HttpRequest seen = replica.last_request();
  EXPECT_EQ(seen.request_id, "id-7");
  EXPECT_EQ(seen.target, kChat + "?a=%20b");
  EXPECT_EQ(seen.body, Body("m"));
  EXPECT_EQ(seen.headers.find("Authorization")->second, "Bearer replica-key");
  EXPECT_EQ(seen.headers.find("X-Mine")->second, "1");
  for (const char* name : {"x-api-key", "X-Hop", "TE", "Connection"})
    EXPECT_FALSE(seen.headers.contains(name)) << name;
}

TEST_F(GatewayTest, HandsEventsOnAsTheyCome) {
  FakeReplica replica("m");
  replica.mode = Mode::kHold;
  Start(ConfigOf({&replica}));
  RawClient client(gateway_->port());
  client.Send(Post(kChat, Body("m", "hi", true)));
  auto writer = replica.WaitForHeld();
  ASSERT_TRUE(writer);
  writer->BeginStream(200, "text/event-stream", {});
  writer->Write(": ping\n\n");
  EXPECT_TRUE(client.ReadUntil(": ping\n\n").ends_with(": ping\n\n"));
  writer->Write("data: 1\n\nda");
  EXPECT_TRUE(client.ReadUntil("data: 1\n\n").ends_with("data: 1\n\n"));
  writer->Write("ta: 2\n\n");
  EXPECT_TRUE(client.ReadUntil("data: 2\n\n").ends_with("data: 2\n\n"));
  writer->End();
  EXPECT_TRUE(client.ReadUntil("0\r\n\r\n").ends_with("0\r\n\r\n"));
}

TEST_F(GatewayTest, TellsTheReplicaThatTheClientLeft) {
  FakeReplica replica("m");
  replica.mode = Mode::kHold;
  Start(ConfigOf({&replica}));
  RawClient client(gateway_->port());
  client.Send(Post(kChat, Body("m", "hi", true)));
  const auto writer = replica.WaitForHeld();
  client.Close();
  EXPECT_TRUE(Eventually([&] { return replica.clients_gone() == 1; }));
  EXPECT_TRUE(Eventually([&] {
    return Metrics().find("replica_outstanding_requests{replica=\"" + replica.url() + "\"} 0") !=
           std::string::npos;
  }));
}

TEST_F(GatewayTest, AsksAnotherReplicaBeforeTheFirstToken) {
  FakeReplica bad("m");
  FakeReplica good("m");
  Start(ConfigOf({&bad, &good}));
  for (const Mode mode : {Mode::kBusy, Mode::kDrop, Mode::kDropPing}) {
    bad.mode = mode;
    const int before = bad.requests();
    for (int i = 0; i < 40 || bad.requests() == before; ++i) {
      ASSERT_LT(i, 400);
      ASSERT_TRUE(UpReaches(2));  // a dropped connection may have ejected it
      const bool stream = mode == Mode::kDropPing;
      const RawAnswer answer = Chat(Body("m", std::to_string(i), stream));
      ASSERT_EQ(answer.status, 200);
      ASSERT_NE(answer.body.find(good.url().substr(17)), std::string::npos);
      ASSERT_EQ(answer.body.ends_with("[DONE]\n\n"), stream);
      if (i >= 10 && bad.requests() > before)
        break;
    }
  }
  // When all are busy, the client hears so.
  bad.mode = good.mode = Mode::kBusy;
  EXPECT_EQ(Chat(Body("m")).status, 503);
}

TEST_F(GatewayTest, EndsABrokenStreamWithAnErrorEvent) {
  FakeReplica replica("m");
  replica.mode = Mode::kDropStream;
  Start(ConfigOf({&replica}));
  const std::string event = "data: " + replica.url().substr(17) + "\n\n";
  RawAnswer answer = Chat(Body("m", "hi", true));
  ASSERT_TRUE(answer.body.starts_with(event + event + "data: {"));
  const auto error = nlohmann::json::parse(answer.body.substr(2 * event.size() + 6));
  EXPECT_EQ(error["error"]["type"], "server_error");
  answer = Ask(Post("/v1/messages", Body("m", "hi", true)));
  EXPECT_NE(answer.body.find("event: error\ndata: {\"error\":{"), std::string::npos);
}

TEST_F(GatewayTest, LosesNoWaitingRequestWhenAReplicaDies) {
  FakeReplica replicas[] = {FakeReplica("m"), FakeReplica("m"), FakeReplica("m")};
  Start(ConfigOf({&replicas[0], &replicas[1], &replicas[2]}));
  std::atomic<int> whole = 0;
  std::atomic<int> broken = 0;
  std::atomic<int> lost = 0;
  std::vector<std::thread> clients;
  for (int t = 0; t < 8; ++t) {
    clients.emplace_back([&, t] {
      for (int i = 0; i < 60; ++i) {
        const bool stream = i % 2 == 0;
        const RawAnswer answer = Chat(Body("m", std::to_string(t * 1000 + i), stream));
        const bool complete = stream ? answer.body.ends_with("[DONE]\n\n") : answer.body.size() > 3;
        // A stream that had begun may break, but says so.
        if (answer.status == 200 && complete)
          ++whole;
        else if (answer.status == 200 && answer.body.find("\"error\"") != std::string::npos)
          ++broken;
        else
          ++lost;
      }
    });
  }
  ASSERT_TRUE(Eventually([&] { return whole > 100; }));
  replicas[1].Kill();
  for (std::thread& client : clients)
    client.join();
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(whole + broken, 480);
  EXPECT_LE(broken, 8);  // what was open then
  EXPECT_GT(replicas[0].requests() + replicas[2].requests(), 240);
}

TEST_F(GatewayTest, EjectsAndTakesBack) {
  FakeReplica a("m");
  FakeReplica b("m");
  Start(ConfigOf({&a, &b}));
  a.healthy = false;
  EXPECT_TRUE(UpReaches(1));
  const int before = a.requests();
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ("http://127.0.0.1:" + Chat(Body("m", std::to_string(i))).body, b.url());
  EXPECT_EQ(a.requests(), before);
  b.Kill();
  EXPECT_TRUE(UpReaches(0));
  EXPECT_EQ(Ask(Get("/health")).status, 503);
  EXPECT_EQ(Chat(Body("m")).status, 503);
  a.healthy = true;
  b.Restart();
  EXPECT_TRUE(UpReaches(2));
  EXPECT_NE(Metrics().find("ejections_total{replica=\"" + a.url() + "\"} 1"), std::string::npos);
}

TEST_F(GatewayTest, MovesWaitingRequestsAwayFromAnEjectedReplica) {
  FakeReplica a("m");
  FakeReplica b("m");
  a.mode = b.mode = Mode::kHold;
  Start(ConfigOf({&a, &b}));
  RawClient client(gateway_->port());
  client.Send(Post(kChat, Body("m")));
  ASSERT_TRUE(Eventually([&] { return a.requests() + b.requests() == 1; }));
  FakeReplica& stuck = a.requests() == 1 ? a : b;
  FakeReplica& other = a.requests() == 1 ? b : a;
  other.mode = Mode::kAnswer;
  stuck.healthy = false;
  EXPECT_EQ("http://127.0.0.1:" + client.ReadAnswer().body, other.url());
  EXPECT_TRUE(Eventually([&] { return stuck.clients_gone() == 1; }));
}

TEST_F(GatewayTest, KeepsPrefixesTogether) {
  FakeReplica replicas[] = {FakeReplica("m"), FakeReplica("m"), FakeReplica("m")};
  Start(ConfigOf({&replicas[0], &replicas[1], &replicas[2]}));
  std::set<std::string> used;
  for (int session = 0; session < 24; ++session) {
    const std::string beginning = std::to_string(session) + std::string(2000, 'p');
    const std::string first = Chat(Body("m", beginning + "one")).body;
    EXPECT_EQ(Chat(Body("m", beginning + "two")).body, first);
    EXPECT_EQ(Chat(Body("m", beginning + "three")).body, first);
    used.insert(first);
  }
  EXPECT_EQ(used.size(), 3U);
}

TEST_F(GatewayTest, LimitsRates) {
  FakeReplica replica("m");
  GatewayConfig config = ConfigOf({&replica});
  config.server.api_keys = {{"alice", "a"}, {"bob", "b"}};
  config.rate_limit = {.requests_per_minute = 1, .burst = 3};
  config.key_limits["bob"] = {};
  Start(config);
  int refused = 0;
  for (int i = 0; i < 6; ++i) {
    RawAnswer answer = Ask(Post(kChat, Body("m"), "x-api-key: a\r\n"));
    EXPECT_EQ(answer.status, i < 3 ? 200 : 429);
    refused += answer.status == 429 ? 1 : 0;
    if (answer.status == 429) {
      EXPECT_GT(std::stoi(answer.headers["retry-after"]), 1);
      EXPECT_EQ(nlohmann::json::parse(answer.body)["error"]["type"], "rate_limit_error");
    }
    EXPECT_EQ(Ask(Post(kChat, Body("m"), "x-api-key: b\r\n")).status, 200);
  }
  EXPECT_EQ(refused, 3);
}

TEST_F(GatewayTest, ReloadsWithoutDroppingStreams) {
  FakeReplica old("m");
  FakeReplica fresh("m");
  old.mode = Mode::kHold;
  GatewayConfig config = ConfigOf({&old});
  config.server.api_keys = {{"k", "first"}};
  Start(config);
  RawClient client(gateway_->port());
  client.Send(Post(kChat, Body("m", "hi", true), "x-api-key: first\r\n"));
  auto writer = old.WaitForHeld();
  writer->BeginStream(200, "text/event-stream", {});
  writer->Write("data: 1\n\n");
  client.ReadUntil("data: 1\n\n");

  config = ConfigOf({&fresh});
  config.server.api_keys = {{"k", "second"}};
  ASSERT_TRUE(gateway_->Reload(config).ok());
  EXPECT_FALSE(gateway_->Reload(GatewayConfig()).ok());  // and nothing changes
  ASSERT_TRUE(UpReaches(1));
  EXPECT_EQ(Ask(Post(kChat, Body("m"), "x-api-key: first\r\n")).status, 401);
  EXPECT_EQ("http://127.0.0.1:" + Ask(Post(kChat, Body("m"), "x-api-key: second\r\n")).body,
            fresh.url());
  writer->Write("data: 2\n\n");
  writer->End();
  EXPECT_TRUE(client.ReadUntil("0\r\n\r\n").find("data: 2\n\n") != std::string::npos);
}

TEST_F(GatewayTest, StopsWithOpenRequests) {
  FakeReplica replica("m");
  replica.mode = Mode::kHold;
  Start(ConfigOf({&replica}));
  RawClient client(gateway_->port());
  client.Send(Post(kChat, Body("m")));
  const auto writer = replica.WaitForHeld();
  gateway_->Stop(milliseconds(0));
  EXPECT_EQ(client.ReadToEnd(), "");
  EXPECT_TRUE(Eventually([&] { return replica.clients_gone() == 1; }));
}

}  // namespace
}  // namespace tenon::test
