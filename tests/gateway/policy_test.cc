// The gateway's policies as functions over plain data: placing, rates, configuration, texts.
#include <gtest/gtest.h>

#include "frontend/gateway/gateway_core.h"
#include "frontend/gateway/proxy_text.h"
#include "frontend/gateway/rate_limiter.h"
#include "frontend/gateway/replica_set.h"

namespace tenon::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::vector<ReplicaAddress> Addresses(int count) {
  std::vector<ReplicaAddress> addresses;
  for (int i = 0; i < count; ++i)
    addresses.push_back(*ParseReplicaUrl("http://replica:" + std::to_string(8000 + i), ""));
  return addresses;
}

ReplicaSet UpSet(int count) {
  ReplicaSet set;
  set.Replace(Addresses(count));
  for (const auto& replica : set.all()) {
    replica->up = true;
    replica->models["m"] = "{}";
  }
  return set;
}

TEST(ReplicaSetTest, ChoosesTheIdlestThatServes) {
  ReplicaSet set = UpSet(3);
  const auto& all = set.all();
  all[0]->outstanding_tokens = 500;
  all[1]->outstanding_tokens = 100;
  all[2]->outstanding_tokens = 300;
  RequestProfile request{"m", 0, 10};
  EXPECT_EQ(set.Choose(request, {}, 0), all[1]);
  EXPECT_EQ(set.Choose(request, {&all[1], 1}, 0), all[2]);
  all[1]->models.clear();
  EXPECT_EQ(set.Choose(request, {}, 0), all[2]);
  all[2]->up = false;
  EXPECT_EQ(set.Choose(request, {}, 0), all[0]);
  request.model = "other";
  EXPECT_EQ(set.Choose(request, {}, 0), nullptr);
  request.model = "";
  all[1]->up = true;
  EXPECT_EQ(set.Choose(request, {}, 0), all[1]);
}

TEST(ReplicaSetTest, SpreadsPrefixesAndMovesFewWhenOneLeaves) {
  ReplicaSet set = UpSet(4);
  std::map<const Replica*, int> counts;
  std::vector<ReplicaSet::Pointer> chosen;
  for (uint64_t i = 0; i < 400; ++i) {
    chosen.push_back(set.Choose({"m", HashBytes(std::to_string(i)), 1}, {}, 100));
    ++counts[chosen.back().get()];
  }
  for (const auto& [replica, count] : counts)
    EXPECT_GT(count, 60);  // 100 each on average
  EXPECT_EQ(counts.size(), 4U);
  const auto lost = set.all()[2];
  lost->up = false;
  for (uint64_t i = 0; i < 400; ++i) {
    const auto now = set.Choose({"m", HashBytes(std::to_string(i)), 1}, {}, 100);
    EXPECT_TRUE(now == chosen[i] || chosen[i] == lost);
  }
}

TEST(ReplicaSetTest, LeavesAPreferredReplicaThatIsTooBusy) {
  ReplicaSet set = UpSet(2);
  const RequestProfile request{"m", 12345, 1};
  const auto preferred = set.Choose(request, {}, 100);
  preferred->outstanding_tokens = 100;
  EXPECT_EQ(set.Choose(request, {}, 100), preferred);
  preferred->outstanding_tokens = 101;
  EXPECT_NE(set.Choose(request, {}, 100), preferred);
}

TEST(ReplicaSetTest, KeepsTheStateOfReplicasThatStay) {
  ReplicaSet set = UpSet(2);
  const auto kept = set.all()[1];
  auto addresses = Addresses(3);
  addresses.erase(addresses.begin());
  set.Replace(addresses);
  ASSERT_EQ(set.all().size(), 2U);
  EXPECT_EQ(set.all()[0], kept);
  EXPECT_FALSE(set.all()[1]->up);
}

TEST(ReplicaSetTest, EjectsAfterFailuresInARow) {
  Replica replica;
  EXPECT_FALSE(NoteSuccess(replica, 2));
  EXPECT_TRUE(NoteSuccess(replica, 2));
  EXPECT_FALSE(NoteFailure(replica, 2));
  EXPECT_FALSE(NoteSuccess(replica, 2));
  EXPECT_FALSE(NoteFailure(replica, 2));
  EXPECT_TRUE(NoteFailure(replica, 2));
  EXPECT_FALSE(replica.up);
  EXPECT_FALSE(NoteFailure(replica, 2));
  EXPECT_EQ(replica.ejections, 1);
}

TEST(RateLimiterTest, RefillsWithTime) {
  RateLimiter limiter({.requests_per_minute = 60, .burst = 2}, {});
  auto now = RateLimiter::Clock::time_point(seconds(100));
  EXPECT_FALSE(limiter.Admit("a", 1, now));
  EXPECT_FALSE(limiter.Admit("a", 1, now));
  EXPECT_EQ(limiter.Admit("a", 1, now), 1);
  EXPECT_FALSE(limiter.Admit("b", 1, now));
  now += milliseconds(1001);
  EXPECT_FALSE(limiter.Admit("a", 1, now));
  EXPECT_EQ(limiter.Admit("a", 1, now), 1);
  now += seconds(3600);  // no more than the burst is saved up
  EXPECT_FALSE(limiter.Admit("a", 1, now));
  EXPECT_FALSE(limiter.Admit("a", 1, now));
  EXPECT_EQ(limiter.Admit("a", 1, now), 1);
}

TEST(RateLimiterTest, CountsTokens) {
  RateLimiter limiter({.tokens_per_minute = 600}, {{"free", {}}});
  const auto now = RateLimiter::Clock::time_point(seconds(100));
  EXPECT_FALSE(limiter.Admit("a", 500, now));
  EXPECT_EQ(limiter.Admit("a", 400, now), 30);  // 300 are missing at 10 a second
  EXPECT_FALSE(limiter.Admit("a", 100, now));
  EXPECT_FALSE(limiter.Admit("big", 5000, now));  // a full bucket lets any size through
  EXPECT_EQ(limiter.Admit("big", 1, now), 441);   // and is paid for: (4400 + 1) / 10
  for (int i = 0; i < 10; ++i)
    EXPECT_FALSE(limiter.Admit("free", 5000, now));
}

TEST(RateLimiterTest, ForgetsIdleClients) {
  RateLimiter limiter({.requests_per_minute = 600, .burst = 1}, {});
  auto now = RateLimiter::Clock::time_point(seconds(100));
  for (int i = 0; i < 10'000; ++i)
    limiter.Admit(std::to_string(i), 1, now);
  now += seconds(10);
  limiter.Admit("new", 1, now);
  EXPECT_EQ(limiter.clients(), 1U);
}

TEST(ProfileTest, ReadsWhatPlacesARequest) {
  const auto read = [](const std::string& body) { return ReadProfile(body, 64); };
  const std::string text(60, 'x');
  const auto chat = read(R"({"model":"m","max_tokens":7,"messages":[{"role":"user","content":")" +
                         text + R"(tail one"}]})");
  EXPECT_EQ(chat.model, "m");
  EXPECT_GE(chat.tokens, 7 + 30);
  EXPECT_LE(chat.tokens, 7 + 40);
  const auto prompt = [&](const std::string& end, const std::string& model) {
    return read(R"({"prompt":")" + text + "wxyz" + end + R"(","model":")" + model + R"("})");
  };
  EXPECT_EQ(prompt("1", "m").prefix_hash, prompt("2", "m").prefix_hash);
  EXPECT_NE(prompt("1", "m").prefix_hash, prompt("1", "n").prefix_hash);
  EXPECT_NE(read(R"({"prompt":[1,2,3]})").prefix_hash, read(R"({"prompt":[1,2,4]})").prefix_hash);
  for (const char* odd : {"", "null", "[]", "{", R"({"model":3,"max_tokens":-1,"prompt":null})"}) {
    EXPECT_EQ(read(odd).model, "");
    EXPECT_EQ(read(odd).prefix_hash, 0U);
  }
}

TEST(ProxyTextTest, CutsStreamsBetweenPieces) {
  EXPECT_EQ(WholePieces("data: 1\n\ndata: 2\n\nda", BodyForm::kEvents), 18U);
  EXPECT_EQ(WholePieces("data: 1\r\n\r\nda", BodyForm::kEvents), 11U);
  EXPECT_EQ(WholePieces("data: 1\n", BodyForm::kEvents), 0U);
  EXPECT_EQ(WholePieces("{}\n{}\n{", BodyForm::kLines), 6U);
  EXPECT_EQ(WholePieces("{}\n\n", BodyForm::kWhole), 0U);
  EXPECT_EQ(CountEvents(": ping\n\n: data\n\n", BodyForm::kEvents), 0);
  EXPECT_EQ(CountEvents("event: a\ndata: 1\n\ndata: 2\n\n", BodyForm::kEvents), 2);
  EXPECT_EQ(CountEvents("{}\n{}\n", BodyForm::kLines), 2);
}

TEST(ProxyTextTest, WritesMetrics) {
  GatewayCore core((GatewayConfig()));
  ReplicaAddress odd = Addresses(1)[0];
  odd.url = "http://a\"b\\c";
  core.replicas.Replace({&odd, 1});
  core.counters.answers[200] = 3;
  const std::string text = MetricsText(core);
  EXPECT_NE(text.find("tenon_gateway_requests_total{status=\"200\"} 3\n"), std::string::npos);
  EXPECT_NE(text.find("tenon_gateway_replica_up{replica=\"http://a\\\"b\\\\c\"} 0\n"),
            std::string::npos);
}

TEST(ConfigTest, ReadsYaml) {
  const auto config = ParseGatewayConfig(R"(
listen: {host: 0.0.0.0, port: 9000, allowed_hosts: [gateway.example]}
replicas:
  - url: http://10.0.0.1:8080/base/
  - {url: "https://[::1]", api_key: secret, ca_file: /ca.pem}
rate_limit: {requests_per_minute: 60, burst: 5}
api_keys:
  - {name: alice, key: k1}
  - {name: bob, key: k2, requests_per_minute: 6}
health: {interval_ms: 100, failures: 3}
max_tries: 2
)",
                                         "gateway.yaml");
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_EQ(config->server.port, 9000);
  EXPECT_EQ(config->replicas[0].host, "10.0.0.1");
  EXPECT_EQ(config->replicas[0].port, 8080);
  EXPECT_EQ(config->replicas[0].path_prefix, "/base");
  EXPECT_EQ(config->replicas[1].host, "::1");
  EXPECT_EQ(config->replicas[1].port, 443);
  EXPECT_TRUE(config->replicas[1].tls);
  EXPECT_EQ(config->key_limits.at("alice").requests_per_minute, 60);
  EXPECT_EQ(config->key_limits.at("bob").requests_per_minute, 6);
  EXPECT_EQ(config->key_limits.at("bob").burst, 5);
  EXPECT_EQ(config->health.interval, milliseconds(100));
  EXPECT_EQ(config->health.failures, 3);
  EXPECT_TRUE(CheckGatewayConfig(*config).ok());
}

// A client's key goes to the replica only where neither the gateway nor the replica has keys.
TEST(ProxyTextTest, KeysOfTheGatewayStayHere) {
  ReplicaAddress open = Addresses(1)[0];
  ReplicaAddress locked = open;
  locked.api_key = "replica-key";
  HttpRequest request;
  request.headers = {{"authorization", "Bearer mine"}, {"X-Api-Key", "mine"}};
  const HttpHeaders passed = HeadersToReplica(request, open, ClientKey::kForReplica);
  EXPECT_EQ(passed.find("Authorization")->second, "Bearer mine");
  EXPECT_EQ(passed.count("x-api-key"), 1U);
  const HttpHeaders kept = HeadersToReplica(request, open, ClientKey::kForGateway);
  EXPECT_FALSE(kept.contains("Authorization"));
  EXPECT_FALSE(kept.contains("x-api-key"));
  for (const ClientKey key : {ClientKey::kForGateway, ClientKey::kForReplica}) {
    const HttpHeaders replaced = HeadersToReplica(request, locked, key);
    ASSERT_EQ(replaced.count("Authorization"), 1U);
    EXPECT_EQ(replaced.find("Authorization")->second, "Bearer replica-key");
    EXPECT_FALSE(replaced.contains("x-api-key"));
  }
}

TEST(ConfigTest, NamesWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"replicas: [{url: 'ftp://x'}]", "http or https"},
      {"replicas: [{url: nonsense}]", "nonsense"},
      {"replicas: [{url: 'http://u:p@x'}]", "user"},
      {"replicas: [{}]", "replica's URL"},
      {"replicas: 3", "must be a list"},
      {"replicas: [3]", "expected a map"},
      {"listen: {prot: 1}", "unknown field 'prot'"},
      {"listen: {port: many}", "'port' has the wrong type"},
      {"listen: {port: 70000}", "'port' has the wrong type"},
      {"a: 1\nb: 2", "c.yaml:1: unknown field 'a'"},
      {"health: {interval_ms: 0}", "'interval_ms'"},
      {"rate_limit: {burst: -1}", "negative"},
      {"rate_limit: {burst: .nan}", "negative"},
      {"api_keys: [{name: x}]", "a name and a key"},
      {"max_tries: [", "c.yaml:"},
      {"- 1", "expected a map"},
      {"", "expected a map"},
  };
  for (const auto& [yaml, message] : cases) {
    const auto config = ParseGatewayConfig(yaml, "c.yaml");
    ASSERT_FALSE(config.ok()) << yaml;
    EXPECT_NE(config.error().ToString().find(message), std::string::npos)
        << yaml << ": " << config.error().ToString();
  }
  GatewayConfig config;
  EXPECT_FALSE(CheckGatewayConfig(config).ok());
  config.replicas = Addresses(1);
  config.replicas.push_back(config.replicas[0]);
  EXPECT_FALSE(CheckGatewayConfig(config).ok());
}

}  // namespace
}  // namespace tenon::test
