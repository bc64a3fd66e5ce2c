// Requests' lives: refusals, limits, cancellation, deadlines, draining, failures.
#include <deque>
#include <future>
#include <random>
#include <thread>

#include "engine_fixture.h"

namespace tenon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

LoadOptions Options() {
  LoadOptions options;
  options.context_tokens = 2048;
  return options;
}

void WaitUntilReady(const ServingEngine& engine) {
  while (engine.health() == Health::kStarting)
    std::this_thread::sleep_for(milliseconds(1));
}

struct BadRequest {
  const char* name;
  std::function<void(ServingRequest&)> spoil;
  const char* message;
};

TEST(ServingLifeTest, ARequestThatCanNeverRunIsRefusedAtOnce) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options());
  const auto engine = MustStart(*model, {});
  const BadRequest cases[] = {
      {"empty", [](auto& r) { r.prompt.clear(); }, "no tokens"},
      {"too long", [](auto& r) { r.prompt = MadeUpTokens(2048, 1); },
       "2048 tokens and the context 2048"},
      {"no token", [](auto& r) { r.prompt[1] = 1 << 20; }, "found token 1048576"},
      {"negative token", [](auto& r) { r.prompt[1] = -1; }, "found token -1"},
      {"temperature", [](auto& r) { r.sampling.temperature = -1.0F; }, "-1"},
      {"choices", [](auto& r) { r.choices = 33; }, "found 33, expected an integer from 1 to 32"},
      {"no choice", [](auto& r) { r.choices = 0; }, "found 0, expected an integer from 1 to 32"},
      {"empty stop", [](auto& r) { r.stop = {""}; }, "empty"},
      {"max_tokens", [](auto& r) { r.max_tokens = -2; }, "found -2"},
  };
  for (const BadRequest& bad : cases) {
    ServingRequest request = GreedyRequest(MadeUpTokens(8, 1), 4);
    bad.spoil(request);
    const auto id = engine->Submit(request, [](const ServingEvent&) { FAIL(); });
    ASSERT_FALSE(id.ok()) << bad.name;
    EXPECT_EQ(id.error().code, ErrorCode::kInvalidArgument) << bad.name;
    EXPECT_NE(id.error().ToString().find(bad.message), std::string::npos)
        << bad.name << ": " << id.error().ToString();
  }
  EXPECT_FALSE(engine->SubmitEmbedding({}, nullptr).ok());
  EXPECT_FALSE(engine->SubmitEmbedding({{1, 1 << 20}, {}}, [](const auto&) {}).ok());
}

TEST(ServingLifeTest, OptionsThatTheModelCannotServeAreRefused) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options());
  ServingOptions options;
  options.max_batch = 33;
  const auto engine = ServingEngine::Start(*model, options, nullptr);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().where, "max_batch");
  options.max_batch = 8;
  options.token_budget = 4;
  EXPECT_FALSE(ServingEngine::Start(*model, options, nullptr).ok());
}

TEST(ServingLifeTest, BeyondTheQueuesLimitSubmitRefusesAndTheRestIsServed) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options());
  ServingOptions options;
  options.max_batch = 2;
  options.queue_limit = 6;
  const auto engine = MustStart(*model, options);
  std::deque<Client> clients;
  std::vector<Client*> accepted;
  int refused = 0;
  for (uint32_t i = 0; i < 40; ++i) {
    Client& client = clients.emplace_back();
    const auto id = engine->Submit(GreedyRequest(MadeUpTokens(12, i), 3), client.Sink());
    if (id.ok()) {
      accepted.push_back(&client);
    } else {
      EXPECT_EQ(id.error().code, ErrorCode::kResourceExhausted);
      ++refused;
    }
  }
  EXPECT_GE(refused, 1);
  EXPECT_GE(accepted.size(), 6U);
  for (Client* client : accepted)
    EXPECT_TRUE(client->Wait().is_finished);
}

TEST(ServingLifeTest, AfterRandomCancelsAllBlocksAreBack) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options());
  ServingOptions options;
  options.max_batch = 8;
  const auto engine = MustStart(*model, options);
  WaitUntilReady(*engine);
  std::mt19937 random(1);
  std::deque<Client> clients;
  std::vector<RequestId> ids;
  for (uint32_t i = 0; i < 300; ++i) {
    ServingRequest request = GreedyRequest(MadeUpTokens(1 + random() % 60, i), 200);
    request.choices = 1 + static_cast<int32_t>(random() % 3);
    ids.push_back(MustSubmit(*engine, request, clients.emplace_back()));
    if (random() % 4 == 0)
      std::this_thread::sleep_for(milliseconds(random() % 8));
    // One of the last ten, wherever it is by now.
    engine->Cancel(ids[ids.size() - 1 - random() % std::min<size_t>(ids.size(), 10)]);
  }
  for (const RequestId id : ids)
    engine->Cancel(id);
  for (Client& client : clients) {
    const Outcome& outcome = client.Wait();
    EXPECT_TRUE(outcome.has_error);
    EXPECT_EQ(outcome.error.code, ErrorCode::kCancelled);
  }
  const ServingRequest request = GreedyRequest(MadeUpTokens(40, 1000), 5);
  Client next;
  MustSubmit(*engine, request, next);
  const Outcome& outcome = next.Wait();
  EXPECT_TRUE(outcome.is_finished);
  engine->Drain(seconds(10));
  const ServingStats stats = engine->stats();
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.waiting, 0);
  EXPECT_EQ(stats.kv.used, 0);
  EXPECT_EQ(stats.kv.free + stats.kv.cached, 64);
  model->runner().kv().DropCached();
  EXPECT_EQ(model->runner().kv().stats().free, 64);
  EXPECT_EQ(outcome.tokens.at(0), Reference(*model, request).token_ids);
}

TEST(ServingLifeTest, ACancelledRequestStopsBesideOneThatGoesOn) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options());
  const auto engine = MustStart(*model, {});
  Client cancelled;
  Client other;
  const RequestId id = MustSubmit(*engine, GreedyRequest(MadeUpTokens(9, 1), 2000), cancelled);
  MustSubmit(*engine, GreedyRequest(MadeUpTokens(9, 2), 12), other);
  cancelled.WaitForTokens(3);
  engine->Cancel(id);
  engine->Cancel(id);      // again, and
  engine->Cancel(999999);  // one that never was
  EXPECT_EQ(cancelled.Wait().error.code, ErrorCode::kCancelled);
  EXPECT_LT(cancelled.Wait().tokens.at(0).size(), 2000U);
  EXPECT_TRUE(other.Wait().is_finished);
}

TEST(ServingLifeTest, APassedDeadlineEndsRunningAndWaitingRequests) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options());
  ServingOptions options;
  options.max_batch = 1;
  const auto engine = MustStart(*model, options);
  WaitUntilReady(*engine);
  Client running;
  Client waiting;
  ServingRequest request = GreedyRequest(MadeUpTokens(9, 1), 2000);
  request.deadline = std::chrono::steady_clock::now() + milliseconds(150);
  MustSubmit(*engine, request, running);
  MustSubmit(*engine, request, waiting);
  for (Client* client : {&running, &waiting}) {
    const Outcome& outcome = client->Wait();
    EXPECT_TRUE(outcome.has_error);
    EXPECT_EQ(outcome.error.code, ErrorCode::kCancelled);
    EXPECT_NE(outcome.error.message.find("deadline"), std::string::npos);
  }
}

TEST(ServingLifeTest, DrainLetsRequestsFinishAndRefusesNewOnes) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options());
  const auto engine = MustStart(*model, {});
  std::deque<Client> clients;
  for (uint32_t i = 0; i < 4; ++i)
    MustSubmit(*engine, GreedyRequest(MadeUpTokens(9, i), 8), clients.emplace_back());
  engine->Drain(seconds(60));
  for (Client& client : clients)
    EXPECT_TRUE(client.Wait().is_finished);
  EXPECT_EQ(engine->health(), Health::kDraining);
  const auto id = engine->Submit(GreedyRequest(MadeUpTokens(9, 1), 8), [](const auto&) { FAIL(); });
  ASSERT_FALSE(id.ok());
  EXPECT_EQ(id.error().code, ErrorCode::kCancelled);
}

TEST(ServingLifeTest, WhatADrainHasNoTimeForIsCancelledAndSoIsWhatTheEndFinds) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options());
  Client drained;
  {
    const auto engine = MustStart(*model, {});
    MustSubmit(*engine, GreedyRequest(MadeUpTokens(9, 1), 2000), drained);
    engine->Drain(milliseconds(20));
    EXPECT_EQ(drained.Wait().error.code, ErrorCode::kCancelled);
  }
  Client ended;
  {
    const auto engine = MustStart(*model, {});
    MustSubmit(*engine, GreedyRequest(MadeUpTokens(9, 1), 2000), ended);
  }
  EXPECT_EQ(ended.Wait().error.code, ErrorCode::kCancelled);
}

// A sink may submit; and every event stream has its order.
TEST(ServingLifeTest, ASinkMaySubmitAndEventsComeInOrder) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options());
  const auto engine = MustStart(*model, {});
  Client second;
  Client first;
  const EventSink sink = first.Sink();
  const auto id = engine->Submit(GreedyRequest(MadeUpTokens(9, 1), 5), [&](ServingEvent event) {
    if (event.kind == ServingEvent::Kind::kStarted)
      MustSubmit(*engine, GreedyRequest(MadeUpTokens(9, 2), 5), second);
    sink(std::move(event));
  });
  ASSERT_TRUE(id.ok());
  const Outcome& outcome = first.Wait();
  std::string kinds;
  for (const ServingEvent& event : outcome.events)
    kinds += "STDFE"[static_cast<size_t>(event.kind)];
  EXPECT_EQ(kinds, "STTTTTDF");
  const RequestTimings& timings = outcome.events.back().timings;
  EXPECT_LE(timings.queue_s, timings.first_token_s);
  EXPECT_LE(timings.first_token_s, timings.total_s);
  EXPECT_TRUE(second.Wait().is_finished);
}

// A sink that blocks is what a stuck engine looks like from outside.
TEST(ServingLifeTest, HealthTellsThatTheEngineIsStuck) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options());
  ServingOptions options;
  options.stuck_after = seconds(1);
  const auto engine = MustStart(*model, options);
  WaitUntilReady(*engine);
  EXPECT_EQ(engine->health(), Health::kReady);
  std::promise<void> release;
  Client client;
  const EventSink sink = client.Sink();
  const auto id = engine->Submit(GreedyRequest(MadeUpTokens(9, 1), 2), [&](ServingEvent event) {
    if (event.kind == ServingEvent::Kind::kStarted)
      release.get_future().wait();
    sink(std::move(event));
  });
  ASSERT_TRUE(id.ok());
  while (engine->health() != Health::kStuck)
    std::this_thread::sleep_for(milliseconds(10));
  release.set_value();
  EXPECT_TRUE(client.Wait().is_finished);
  engine->Drain(seconds(10));
  EXPECT_EQ(engine->health(), Health::kDraining);
}

}  // namespace
}  // namespace tenon
