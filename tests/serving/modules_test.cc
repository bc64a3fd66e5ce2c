// Modules on a running server. The small model of the routing is the large one again, so that every
// answer must be the plain one, whoever decided its tokens and whatever is switched meanwhile.
#include <condition_variable>
#include <fstream>
#include <mutex>

#include "base/log.h"
#include "frontend/serving/served_modules.h"
#include "gguf/gguf_writer.h"
#include "serving/engine_fixture.h"

namespace tenon {
namespace {

constexpr int64_t kTokens = 24;

LoadOptions ServingLoad() {
  LoadOptions options;
  options.context_tokens = 2048;
  options.batch_outputs = 32;
  return options;
}

ModuleConfig RoutingConfig(double threshold) {
  ModuleConfig config;
  config.modules.push_back({"routing",
                            {{"small", kSmolLm},
                             {"threshold", threshold},
                             {"hysteresis", 1},
                             {"max_switches_per_s", 0},
                             {"context_tokens", 2048},
                             {"verify_every", 4}}});
  return config;
}

class ModulesTest : public ::testing::Test {
 protected:
  // Keeps the model for longer than the engine that runs it.
  void Start(std::unique_ptr<Model> loaded, const ModuleConfig& config) {
    model_ = std::move(loaded);
    Model& model = *model_;
    auto served = ServedModules::Create(model, config);
    ASSERT_TRUE(served.ok()) << served.error().ToString();
    served_ = *std::move(served);
    ServingOptions options;
    options.batch_window = std::chrono::milliseconds(0);
    auto engine = ServingEngine::Start(model, options, nullptr, &served_->steps());
    ASSERT_TRUE(engine.ok()) << engine.error().ToString();
    engine_ = *std::move(engine);
    control_ = served_->Control(*engine_);
  }

  std::unique_ptr<Model> model_;
  std::unique_ptr<ServedModules> served_;
  std::unique_ptr<ServingEngine> engine_;
  std::unique_ptr<ModuleControl> control_;
};

TEST_F(ModulesTest, RequestsGoOnWhateverIsSwitched) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, ServingLoad());
  std::vector<ServingRequest> requests;
  std::vector<std::vector<int32_t>> expected;
  for (uint32_t i = 0; i < 4; ++i) {
    requests.push_back(GreedyRequest(MadeUpTokens(10 + i * 9, i), kTokens));
    expected.push_back(Reference(*model, requests.back()).token_ids);
  }
  Start(std::move(model), RoutingConfig(0.5));
  std::vector<Client> clients(requests.size());
  for (size_t i = 0; i < requests.size(); ++i)
    ASSERT_TRUE(engine_->Submit(requests[i], clients[i].Sink()).ok());
  clients[0].WaitForTokens(4);
  EXPECT_TRUE(control_->Set("routing", Supervisor::Switch::kOff).ok());
  clients[0].WaitForTokens(8);
  EXPECT_TRUE(control_->Set("routing", Supervisor::Switch::kOn).ok());
  clients[0].WaitForTokens(12);
  const auto options = RoutingConfig(0.9).modules[0].options;
  const Status reconfigured = control_->Reconfigure("routing", options);
  EXPECT_TRUE(reconfigured.ok()) << reconfigured.error().ToString();
  EXPECT_FALSE(control_->Reconfigure("routing", {{"small", "no-such-model"}}).ok());
  for (size_t i = 0; i < clients.size(); ++i) {
    const Outcome& outcome = clients[i].Wait();
    EXPECT_TRUE(outcome.is_finished) << outcome.error.ToString();
    EXPECT_EQ(outcome.tokens.at(0), expected[i]) << i;
  }
  const ManagerReport report = control_->report();
  ASSERT_EQ(report.modules.size(), 1U);
  EXPECT_EQ(report.modules[0].supervision.total_failures, 0U);
  EXPECT_GE(report.decisions_made, 2U);
}

TEST_F(ModulesTest, AModuleAboveItsQuotaIsLeftOut) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, ServingLoad());
  ModuleConfig config = RoutingConfig(0.5);
  config.memory_quota = {{"routing", "0.01%"}};
  Start(std::move(model), config);
  Client client;
  ASSERT_TRUE(engine_->Submit(GreedyRequest(MadeUpTokens(10, 1), 3), client.Sink()).ok());
  EXPECT_TRUE(client.Wait().is_finished);
  EXPECT_TRUE(control_->report().modules.empty());
}

TEST_F(ModulesTest, TheConfigurationIsFollowed) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, ServingLoad());
  ModuleConfig config;
  config.modules.push_back({"ngram", nlohmann::json::object()});
  Start(std::move(model), config);
  ModuleConfig next;
  next.monitoring = {{"min_latency_saving", "30%"}, {"cool_down_s", 5}};
  EXPECT_TRUE(ApplyModuleConfig(*control_, config, next).ok());
  ManagerReport report = control_->report();
  EXPECT_DOUBLE_EQ(report.rules.min_latency_saving, 0.3);
  EXPECT_EQ(report.modules[0].supervision.state, SupervisionState::kOff);
  EXPECT_TRUE(ApplyModuleConfig(*control_, next, config).ok());
  report = control_->report();
  EXPECT_EQ(report.modules[0].supervision.state, SupervisionState::kActive);
  ModuleConfig wrong;
  wrong.monitoring = {{"min_latency_savings", 0.3}};
  EXPECT_EQ(ApplyModuleConfig(*control_, next, wrong).error().where,
            "monitoring.min_latency_savings");
}

TEST(RestartOnlyChangesTest, NamesWhatARunningServerCannotTake) {
  const auto changes = [](const std::string& before, const std::string& now) {
    return RestartOnlyChanges(*ParseModuleConfig(before, "t.yaml"),
                              *ParseModuleConfig(now, "t.yaml"));
  };
  EXPECT_EQ(changes("modules: { ngram: { max_guesses: 3 } }",
                    "modules: { routing: true }\nmonitoring: { cool_down_s: 3 }"),
            "");
  EXPECT_EQ(changes("scheduling: { max_batch: 4 }", "scheduling: { max_batch: 8 }"), "scheduling");
  EXPECT_EQ(changes("kv_cache: f16", "module_memory_quota: { ngram: 1% }"),
            "kv_cache, module_memory_quota");
  EXPECT_EQ(changes("", "quantization: { recomputation: true }"), "quantization.recomputation");
}

class Lines final : public LogSink {
 public:
  Lines() { SetLogSink(this, LogLevel::kInfo); }
  ~Lines() override { SetLogSink(nullptr, LogLevel::kError); }
  void Write(LogLevel, std::string_view message) override {
    const std::lock_guard lock(mutex_);
    all_ += message;
    all_ += '\n';
    changed_.notify_all();
  }
  // Waits for a line with `text`; false after a long time.
  bool Has(std::string_view text) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60),
                             [&] { return all_.find(text) != std::string::npos; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string all_;
};

TEST_F(ModulesTest, WhatCannotBeFollowedIsSaid) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, ServingLoad());
  ModuleConfig config;
  config.modules.push_back({"ngram", nlohmann::json::object()});
  Start(std::move(model), config);
  const testing::TempFolder folder;
  const auto path = folder.Write("t.yaml", {});
  Lines lines;
  const ConfigFollower follower(path, *control_, config);
  std::ofstream(path) << "modules: { ngram: true }\nscheduling: { max_batch: 2 }\n";
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now());
  EXPECT_TRUE(lines.Has("started again to take over the change of scheduling"));
  std::filesystem::remove(path);
  EXPECT_TRUE(lines.Has("can't be read any more"));
}

TEST(MonitoringTest, WhatNobodyKnowsIsRefusedWithItsPlace) {
  const auto error = [](const std::string& yaml) {
    const auto config = ParseModuleConfig(yaml, "t.yaml");
    EXPECT_TRUE(config.ok());
    const Status status = CheckModuleConfig(*config);
    return status.ok() ? std::string() : status.error().where;
  };
  EXPECT_EQ(error("monitoring: { p99_rollback: 10% }\nmodule_memory_quota: { ngram: 1% }"), "");
  EXPECT_EQ(error("\nmonitoring: { bogus: 1 }"), "t.yaml:2: monitoring.bogus");
  EXPECT_EQ(error("module_memory_quota: { bogus: 1% }"), "t.yaml:1: module_memory_quota.bogus");
  EXPECT_EQ(error("module_memory_quota: { ngram: 90%, routing: 20% }"),
            "t.yaml:1: module_memory_quota");
}

TEST(MonitoringTest, SharesAndQuotas) {
  const auto rules = ReadMonitoring({{"min_latency_saving", "20%"}, {"p99_rollback", 0.5}}, {});
  ASSERT_TRUE(rules.ok());
  EXPECT_DOUBLE_EQ(rules->min_latency_saving, 0.2);
  EXPECT_DOUBLE_EQ(rules->p99_rollback, 0.5);
  const auto quotas =
      ReadQuotas({{"routing", "15%"}, {"quantization", "60%"}, {"phase_splitting", "25%"}}, 1000);
  ASSERT_TRUE(quotas.ok()) << quotas.error().ToString();
  EXPECT_EQ(quotas->shares.size(), 3U);
  EXPECT_FALSE(ReadQuotas({{"ngram", "70%"}, {"routing", "40%"}}, 1000).ok());
}

}  // namespace
}  // namespace tenon
