// Speculation inside the serving engine: batches, shared prefixes, preemption, several choices,
// cancellation, requests without modules, modules that are switched while requests run. Every
// answer must be what Generate says alone.
#include <gtest/gtest.h>

#include <atomic>

#include "frontend/session/module_set.h"
#include "serving/engine_fixture.h"

namespace tenon {
namespace {

LoadOptions Options(int64_t context) {
  LoadOptions options;
  options.context_tokens = context;
  options.batch_tokens = 128;
  options.batch_outputs = 48;
  return options;
}

// Two kinds of guesses at once: looked up ones, and the model's own, which are all right.
ModuleConfig TwoModules() {
  ModuleConfig config;
  config.modules.push_back(*ParseModuleFlag("ngram:length=fixed,max_guesses=3,shortest=1"));
  config.modules.push_back(
      *ParseModuleFlag("draft_model:model=smollm2-135m-instruct,length=fixed,max_guesses=3"));
  return config;
}

struct Served {
  std::unique_ptr<Model> model;
  std::unique_ptr<ModuleSet> modules;
  std::unique_ptr<ServingEngine> engine;  // ends first
};

Served MustServe(std::unique_ptr<Model> model, const ServingOptions& options) {
  Served served;
  served.model = std::move(model);
  auto set = ModuleSet::Create(*served.model, TwoModules());
  EXPECT_TRUE(set.ok()) << (set.ok() ? "" : set.error().ToString());
  served.modules = std::move(*set);
  auto engine = ServingEngine::Start(*served.model, options, nullptr, &served.modules->steps());
  EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().ToString());
  served.engine = std::move(*engine);
  return served;
}

// What each request must say, from the model alone.
std::vector<std::vector<int32_t>> References(Model& model,
                                             const std::vector<ServingRequest>& requests) {
  std::vector<std::vector<int32_t>> tokens;
  for (const ServingRequest& request : requests)
    tokens.push_back(Reference(model, request).token_ids);
  return tokens;
}

uint64_t Accepted(const Served& served) {
  uint64_t accepted = 0;
  for (const ModuleReport& report : served.modules->chain().Report()) {
    accepted += report.stats.accepted;
    EXPECT_EQ(report.stats.integrity_failures, 0U) << report.info.name;
  }
  return accepted;
}

TEST(SpeculationServingTest, ABatchOfMixedRequestsSaysWhatEachSaysAlone) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options(2048));
  std::vector<ServingRequest> requests;
  const std::vector<int32_t> shared = MadeUpTokens(70, 1);
  for (uint32_t i = 0; i < 6; ++i) {
    std::vector<int32_t> prompt = shared;  // a prefix in common, and a rest of its own
    const auto rest = MadeUpTokens(5 + i, i + 10);
    prompt.insert(prompt.end(), rest.begin(), rest.end());
    requests.push_back(GreedyRequest(std::move(prompt), 10 + 3 * static_cast<int64_t>(i)));
    if (i % 2 == 1) {
      requests.back().sampling.temperature = 0.9F;
      requests.back().sampling.seed = i;
      requests.back().sampling.presence_penalty = 0.5F;
    }
  }
  requests[2].modules = std::vector<std::string>();
  requests[3].modules = std::vector<std::string>{"ngram"};
  const auto expected = References(*model, requests);
  Served served = MustServe(std::move(model), ServingOptions());
  std::vector<Client> clients(requests.size());
  for (size_t i = 0; i < requests.size(); ++i)
    MustSubmit(*served.engine, requests[i], clients[i]);
  for (size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(clients[i].Wait().tokens.at(0), expected[i]) << "request " << i;
  served.engine->Drain(std::chrono::seconds(5));
  EXPECT_GT(Accepted(served), 20U);
}

TEST(SpeculationServingTest, PreemptionGoesOnWhereItWas) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options(192));
  std::vector<ServingRequest> requests;
  for (uint32_t i = 0; i < 3; ++i)
    requests.push_back(GreedyRequest(MadeUpTokens(40, i + 1), 60));
  const auto expected = References(*model, requests);
  Served served = MustServe(std::move(model), ServingOptions());
  std::vector<Client> clients(requests.size());
  for (size_t i = 0; i < requests.size(); ++i)
    MustSubmit(*served.engine, requests[i], clients[i]);
  for (size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(clients[i].Wait().tokens.at(0), expected[i]) << "request " << i;
  EXPECT_GT(served.engine->stats().preemptions, 0U);
  served.engine->Drain(std::chrono::seconds(5));
  EXPECT_GT(Accepted(served), 20U);
}

TEST(SpeculationServingTest, ChoicesHaveSeedsOfTheirOwn) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options(1024));
  ServingRequest request = GreedyRequest(MadeUpTokens(45, 9), 14);
  request.sampling.temperature = 0.8F;
  request.sampling.seed = 77;
  request.sampling.logprobs = 1;
  std::vector<std::vector<int32_t>> expected;
  for (uint64_t i = 0; i < 3; ++i) {
    ServingRequest alone = request;
    alone.sampling.seed += i;
    expected.push_back(Reference(*model, alone).token_ids);
  }
  Served served = MustServe(std::move(model), ServingOptions());
  request.choices = 3;
  Client client;
  MustSubmit(*served.engine, request, client);
  const Outcome& outcome = client.Wait();
  for (int32_t i = 0; i < 3; ++i)
    EXPECT_EQ(outcome.tokens.at(i), expected[static_cast<size_t>(i)]) << "choice " << i;
  for (const ServingEvent& event : outcome.events)
    EXPECT_EQ(event.sampled.size(), event.tokens.size());
  served.engine->Drain(std::chrono::seconds(5));
  EXPECT_GT(Accepted(served), 5U);
}

TEST(SpeculationServingTest, StopStringsCutWhatWasDecidedBehindThem) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options(1024));
  ServingRequest request =
      GreedyRequest(model->tokenizer().Encode("The three largest cities in France are",
                                              SpecialText::kPlain, AddSpecial::kModelDefault),
                    40);
  const std::string whole = Reference(*model, request).text;
  ASSERT_GT(whole.size(), 12U);
  request.stop = {whole.substr(8, 3)};
  const GenerationResult alone = Reference(*model, request);
  Served served = MustServe(std::move(model), ServingOptions());
  Client client;
  MustSubmit(*served.engine, request, client);
  const Outcome& outcome = client.Wait();
  EXPECT_EQ(outcome.text.at(0), alone.text);
  EXPECT_EQ(outcome.tokens.at(0), alone.token_ids);
  EXPECT_EQ(outcome.finish.at(0), FinishReason::kStop);
}

TEST(SpeculationServingTest, ModulesAreSwitchedWhileRequestsRun) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options(1024));
  std::vector<ServingRequest> requests;
  for (uint32_t i = 0; i < 3; ++i)
    requests.push_back(GreedyRequest(MadeUpTokens(30, i + 20), 60));
  const auto expected = References(*model, requests);
  Served served = MustServe(std::move(model), ServingOptions());
  std::vector<Client> clients(requests.size());
  for (size_t i = 0; i < requests.size(); ++i)
    MustSubmit(*served.engine, requests[i], clients[i]);
  ModuleChain& chain = served.modules->chain();
  ModuleState state = ModuleState::kOff;
  std::atomic<int> switched{0};
  for (size_t count = 5; count < 50; count += 9) {
    clients[0].WaitForTokens(count);
    served.engine->Post([&chain, &switched, state] {
      EXPECT_TRUE(chain.Switch("draft_model", state).ok());
      EXPECT_TRUE(chain.Switch("ngram", state).ok());
      ++switched;
    });
    state = state == ModuleState::kOff ? ModuleState::kOn : ModuleState::kOff;
  }
  for (size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(clients[i].Wait().tokens.at(0), expected[i]) << "request " << i;
  EXPECT_EQ(switched.load(), 5);
}

TEST(SpeculationServingTest, CancellationLeavesNothingBehind) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options(1024));
  Served served = MustServe(std::move(model), ServingOptions());
  Client endless;
  const RequestId id = MustSubmit(*served.engine, GreedyRequest(MadeUpTokens(33, 5), 800), endless);
  endless.WaitForTokens(9);
  served.engine->Cancel(id);
  EXPECT_TRUE(endless.Wait().has_error);
  served.engine->Drain(std::chrono::seconds(5));
  EXPECT_EQ(served.engine->stats().kv.used, 0);
}

TEST(SpeculationServingTest, RefusesAModuleThatNobodyKnows) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options(256));
  const auto engine = MustStart(*model, ServingOptions());
  ServingRequest request = GreedyRequest(MadeUpTokens(5, 5), 8);
  request.modules = std::vector<std::string>{"no_such_module"};
  Client client;
  const auto id = engine->Submit(request, client.Sink());
  ASSERT_FALSE(id.ok());
  EXPECT_EQ(id.error().where, "modules");
}

}  // namespace
}  // namespace tenon
