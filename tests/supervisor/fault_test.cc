// Every rule of the supervisor, shown by a server of made-up modules in which faults are injected:
// what a step costs, corrupts or holds is a formula, and the clock is the server's own. Whatever
// the supervisor does, every request gets all its tokens, in order.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "accel/manager/supervisor.h"

namespace tenon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct FakeModule {
  std::string name;
  double factor = 1.0;       // of the time of a step that it takes part in
  double corrupt = 0.0;      // share of its integrity checks that fail
  double tail_factor = 1.0;  // of every 40th step
  int64_t bytes = 100;       // in use
};

// A few requests decoded together; when one is done the next comes. Time is simulated.
class FakeServer {
 public:
  explicit FakeServer(std::vector<FakeModule> fakes, MonitoringRules rules = {})
      : modules(std::move(fakes)), supervisor_(Make(modules, rules)) {}

  static Supervisor Make(const std::vector<FakeModule>& fakes, const MonitoringRules& rules) {
    std::vector<SupervisedModule> supervised;
    for (const FakeModule& module : fakes)
      supervised.push_back({module.name, {module.name, 0.3, 200, 100}});
    auto supervisor = Supervisor::Create(rules, 1000, std::move(supervised), Supervisor::Time());
    EXPECT_TRUE(supervisor.ok());
    return *std::move(supervisor);
  }

  void Run(int64_t steps) {
    for (int64_t i = 0; i < steps; ++i)
      Step();
  }

  void Step() {
    const auto step = supervisor_.NextStep();
    double time = kPlainStep;
    // A little noise, the same in every run.
    noise_ = noise_ * 6364136223846793005ULL + 1442695040888963407ULL;
    time *= 1.0 + 0.02 * static_cast<double>(noise_ >> 40) / static_cast<double>(1 << 24);
    for (size_t i = 0; i < modules.size(); ++i)
      time *= step.modules.Has(i) ? Cost(i) : 1.0;
    now_ +=
        std::chrono::duration_cast<Supervisor::Time::duration>(std::chrono::duration<double>(time));
    const std::vector<double> latencies(requests_.size(), time);
    supervisor_.ObserveStep(
        step,
        {static_cast<int64_t>(requests_.size()), static_cast<int64_t>(requests_.size()), time},
        latencies);
    for (size_t i = 0; i < modules.size(); ++i)
      Check(i, step.modules.Has(i));
    supervisor_.Judge(now_);
    for (Decision& decision : supervisor_.TakeDecisions())
      decisions.push_back(std::move(decision));
    Deliver();
    ++steps_;
  }

  // The names of the active modules.
  std::string Active() const {
    std::string names;
    for (size_t i = 0; i < modules.size(); ++i) {
      if (supervisor_.active().Has(i))
        names += (names.empty() ? "" : " ") + modules[i].name;
    }
    return names;
  }

  int64_t Count(ModuleAction action) const {
    return std::ranges::count(decisions, action, &Decision::action);
  }

  Supervisor& supervisor() { return supervisor_; }
  Supervisor::Time now() const { return now_; }
  int64_t finished() const { return finished_; }
  int64_t lost() const { return lost_; }
  int64_t steps() const { return steps_; }

  std::vector<FakeModule> modules;
  std::vector<Decision> decisions;

 private:
  static constexpr double kPlainStep = 0.010;
  static constexpr size_t kRequestTokens = 37;

  double Cost(size_t module) const {
    const double tail = steps_ % 40 == 0 ? modules[module].tail_factor : 1.0;
    return modules[module].factor * tail;
  }

  void Check(size_t module, bool took_part) {
    supervisor_.ObserveMemory(module, modules[module].bytes, now_);
    if (!took_part)
      return;
    failing_[module] += modules[module].corrupt;
    const int64_t failures = failing_[module] >= 1.0 ? 1 : 0;
    failing_[module] -= static_cast<double>(failures);
    supervisor_.ObserveIntegrity(module, 1, failures);
  }

  // Each request wants the tokens 0, 1, 2, ... up to its length.
  void Deliver() {
    for (std::vector<size_t>& request : requests_) {
      request.push_back(request.size());
      if (request.size() < kRequestTokens)
        continue;
      for (size_t i = 0; i < request.size(); ++i)
        lost_ += request[i] == i ? 0 : 1;
      ++finished_;
      request.clear();
    }
  }

  Supervisor supervisor_;
  Supervisor::Time now_;
  std::vector<std::vector<size_t>> requests_ = std::vector<std::vector<size_t>>(3);
  double failing_[ModuleBits::kMaxModules] = {};
  uint64_t noise_ = 1;
  int64_t steps_ = 0;
  int64_t finished_ = 0;
  int64_t lost_ = 0;
};

void ExpectNothingLost(const FakeServer& server) {
  EXPECT_EQ(server.lost(), 0);
  EXPECT_EQ(server.finished(), server.steps() / 37 * 3);
}

TEST(FaultTest, GoodModulesStay) {
  FakeServer server({{"routing", 0.7}, {"quantization", 0.6}});
  server.Run(5000);
  EXPECT_EQ(server.Active(), "routing quantization");
  EXPECT_TRUE(server.decisions.empty());
  const auto reports = server.supervisor().reports();
  EXPECT_NEAR(*reports[0].saving, 0.3, 0.02);  // each against the chain without it
  EXPECT_NEAR(*reports[1].saving, 0.4, 0.02);
  ExpectNothingLost(server);
}

TEST(FaultTest, AModuleThatSavesTooLittleIsDisabled) {
  FakeServer server({{"routing", 0.9}, {"quantization", 0.6}});
  server.Run(3000);
  EXPECT_EQ(server.Active(), "quantization");
  ASSERT_FALSE(server.decisions.empty());
  const Decision& decision = server.decisions.front();
  EXPECT_EQ(decision.module, "routing");
  EXPECT_EQ(decision.action, ModuleAction::kDisabled);
  EXPECT_EQ(decision.rule, ModuleRule::kSaving);
  EXPECT_NEAR(decision.measured, 0.1, 0.02);
  EXPECT_DOUBLE_EQ(decision.limit, 0.15);
  ExpectNothingLost(server);
}

TEST(FaultTest, ADisabledModuleReturnsWhenItPaysAgain) {
  FakeServer server({{"routing", 1.3}});
  server.Run(6000);
  EXPECT_EQ(server.Active(), "");
  server.modules[0].factor = 0.7;
  server.Run(20000);
  EXPECT_EQ(server.Active(), "routing");
  EXPECT_EQ(server.Count(ModuleAction::kReturned), 1);
  EXPECT_EQ(server.Count(ModuleAction::kDisabled), 1);
  ExpectNothingLost(server);
}

// On the edge it must not come and go: between 15% and 20% what is in stays in, what is out stays
// out.
TEST(FaultTest, NoFlappingAtTheLimit) {
  FakeServer out({{"routing", 1.3}});
  out.Run(3000);
  out.modules[0].factor = 0.83;
  out.Run(40000);
  EXPECT_EQ(out.Active(), "");
  FakeServer in({{"routing", 0.83}});
  in.Run(40000);
  EXPECT_EQ(in.Active(), "routing");
}

// A module that is good on trial and bad in earnest: the waits between its returns double.
TEST(FaultTest, WaitsDouble) {
  FakeServer server({{"routing", 1.3}});
  std::vector<double> waits;
  Supervisor::Time withdrawn;
  size_t seen = 0;
  for (int i = 0; i < 120'000; ++i) {
    server.Step();
    for (; seen < server.decisions.size(); ++seen) {
      const Decision& decision = server.decisions[seen];
      if (decision.action == ModuleAction::kDisabled)
        withdrawn = decision.time;
      if (decision.action == ModuleAction::kOnTrial)
        waits.push_back(std::chrono::duration<double>(decision.time - withdrawn).count());
    }
    server.modules[0].factor = server.Active().empty() ? 0.5 : 1.3;
  }
  ASSERT_GE(waits.size(), 3U);
  EXPECT_NEAR(waits[0], 30.0, 1.0);
  EXPECT_NEAR(waits[1], 60.0, 1.0);
  EXPECT_NEAR(waits[2], 120.0, 1.0);
}

TEST(FaultTest, FailedIntegrityLeavesOneModule) {
  FakeServer server({{"routing", 0.7}, {"quantization", 0.6}, {"phase_split", 0.8}});
  server.Run(2000);
  EXPECT_EQ(server.Active(), "routing quantization phase_split");
  server.modules[0].corrupt = 0.02;
  server.Run(1500);
  EXPECT_EQ(server.Active(), "quantization");  // of the others the one that saves most
  EXPECT_EQ(server.Count(ModuleAction::kDegraded), 2);
  EXPECT_EQ(server.decisions.front().rule, ModuleRule::kIntegrity);
  EXPECT_GT(server.decisions.front().measured, 0.005);
  ExpectNothingLost(server);
}

TEST(FaultTest, RareFailuresAreTolerated) {
  FakeServer server({{"routing", 0.7}, {"quantization", 0.6}});
  server.modules[0].corrupt = 0.004;
  server.Run(20000);
  EXPECT_EQ(server.Active(), "routing quantization");
}

TEST(FaultTest, AModuleAloneThatFailsIsDisabledAndStaysOut) {
  FakeServer server({{"routing", 0.5}});
  server.modules[0].corrupt = 0.5;
  server.Run(40000);
  EXPECT_EQ(server.Active(), "");  // its trials fail their checks, too
  EXPECT_EQ(server.Count(ModuleAction::kReturned), 0);
  ExpectNothingLost(server);
}

TEST(FaultTest, ATailJumpRollsBackTheModuleThatIsMissedLeast) {
  FakeServer server({{"routing", 0.7}, {"quantization", 0.5}});
  server.Run(3000);
  server.modules[0].tail_factor = 4.0;
  server.Run(500);
  EXPECT_EQ(server.Active(), "quantization");
  ASSERT_EQ(server.Count(ModuleAction::kRolledBack), 1);
  EXPECT_EQ(server.decisions.front().module, "routing");
  EXPECT_GT(server.decisions.front().measured, 0.4);
  server.Run(1000);  // what is left has a baseline of its own
  EXPECT_EQ(server.Active(), "quantization");
  ExpectNothingLost(server);
}

TEST(FaultTest, ASmallRiseOfTheTailIsTolerated) {
  FakeServer server({{"routing", 0.5}});
  server.Run(3000);
  server.modules[0].tail_factor = 1.3;
  server.Run(5000);
  EXPECT_EQ(server.Active(), "routing");
}

TEST(FaultTest, AMemoryHogIsToldThenDisabledForGood) {
  FakeServer server({{"routing", 0.5}, {"quantization", 0.5}});
  server.Run(100);
  server.modules[0].bytes = 301;  // of 300
  server.Step();
  EXPECT_EQ(server.Active(), "routing quantization");
  EXPECT_EQ(server.Count(ModuleAction::kShrunk), 1);
  server.modules[0].bytes = 300;  // it listened
  server.Run(10);
  EXPECT_EQ(server.Active(), "routing quantization");
  server.modules[0].bytes = 5000;
  server.Run(2);
  EXPECT_EQ(server.Active(), "quantization");
  EXPECT_EQ(server.decisions.back().rule, ModuleRule::kQuota);
  server.Run(10'000);
  EXPECT_EQ(server.Active(), "quantization");
  ExpectNothingLost(server);
}

TEST(FaultTest, AModuleThatNeedsMoreThanItsQuotaIsRefused) {
  std::vector<SupervisedModule> modules = {{"big", {"", 0.5, 900, 800}},
                                           {"fits", {"", 0.5, 100, 1}}};
  auto supervisor = Supervisor::Create({}, 1000, std::move(modules), {});
  ASSERT_TRUE(supervisor.ok());
  EXPECT_EQ(supervisor->active(), ModuleBits::Only(1));
  const auto decisions = supervisor->TakeDecisions();
  ASSERT_EQ(decisions.size(), 1U);
  EXPECT_EQ(decisions[0].action, ModuleAction::kRefused);
  const Status status = supervisor->Set("big", Supervisor::Switch::kOn, {});
  EXPECT_EQ(status.error().code, ErrorCode::kResourceExhausted);
}

TEST(FaultTest, TheOperatorHasTheLastWord) {
  FakeServer server({{"routing", 1.5}});
  EXPECT_EQ(server.supervisor().Set("none", Supervisor::Switch::kOn, server.now()).error().code,
            ErrorCode::kNotFound);
  ASSERT_TRUE(server.supervisor().Set("routing", Supervisor::Switch::kOff, server.now()).ok());
  server.Run(20'000);
  EXPECT_EQ(server.Active(), "");
  EXPECT_EQ(server.Count(ModuleAction::kOnTrial), 0);  // off is off
  ASSERT_TRUE(server.supervisor().Set("routing", Supervisor::Switch::kOn, server.now()).ok());
  server.Run(100);
  EXPECT_EQ(server.Active(), "routing");
  server.Run(3000);
  EXPECT_EQ(server.Active(), "");
  ExpectNothingLost(server);
}

TEST(FaultTest, RulesCanChangeWhileRunning) {
  FakeServer server({{"routing", 0.8}});
  server.Run(2000);
  EXPECT_EQ(server.Active(), "routing");
  MonitoringRules rules;
  rules.min_latency_saving = 0.3;
  ASSERT_TRUE(server.supervisor().SetRules(rules).ok());
  server.Run(1000);
  EXPECT_EQ(server.Active(), "");
  rules.min_latency_saving = -1;
  EXPECT_FALSE(server.supervisor().SetRules(rules).ok());
}

}  // namespace
}  // namespace tenon
