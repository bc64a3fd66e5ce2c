// The supervised chain with real sequences, samplers and integrity checks; the model below is a
// formula, the modules are made to fail in each of the ways that the rules are for, and time is the
// test's own. Whatever is decided about modules, every request gets exactly the plain answer.
#include "accel/manager/supervised_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "accel/sequence_integrity.h"
#include "engine/kv/kv_pool.h"

namespace tenon {
namespace {

using Time = std::chrono::steady_clock::time_point;

constexpr int32_t kVocab = 50;
constexpr size_t kAnswer = 40;

int32_t TokenAt(size_t position) {
  return static_cast<int32_t>((position * 7 + 3) % kVocab);
}

struct World {
  Time now;
  void Pass(double seconds) {
    now += std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(seconds));
  }
};

// A model whose next token depends on the position alone; 10 ms a step.
class FormulaEngine : public StepEngine {
 public:
  explicit FormulaEngine(World& world) : world_(world) {}

  Status Advance(std::span<SequenceTask> tasks) override {
    world_.Pass(0.010);
    for (SequenceTask& task : tasks) {
      task.ClearResults();
      const bool decides = task.Decides();
      const auto from = static_cast<size_t>(task.sequence->length());
      task.sequence->Append(task.tokens.subspan(from, static_cast<size_t>(task.compute)));
      task.computed = task.compute;
      if (!decides)
        continue;
      std::vector<float> logits(kVocab, 0.0F);
      logits[static_cast<size_t>(TokenAt(task.tokens.size()))] = 9.0F;
      task.decided.push_back(*task.samplers[0]->Sample(logits));
      task.samplers[0]->Accept(task.decided.back().token);
    }
    return {};
  }
  PendingWork Pending(SequenceTask& task) override {
    const int64_t pending = task.known() - task.sequence->length();
    return {pending, pending};
  }
  void Forget(SequenceKey) override {}
  StepCapacity capacity() const override { return {512, 64}; }

 private:
  World& world_;
};

enum class Fault : uint8_t { kNone, kWrongToken, kLostToken };

// Changes what a step costs, and breaks what it is told to break.
class FaultyModule : public Module, public StepEngine, public PreAdapter {
 public:
  FaultyModule(World& world, std::string name, ModuleStage stage)
      : world_(world), name_(std::move(name)), stage_(stage) {}

  double saves = 0.0;          // share of the 10 ms
  int64_t tail_every = 0;      // steps
  double tail_seconds = 0.0;   // extra, in those
  Fault fault = Fault::kNone;  // in every third step
  int64_t bytes = 100;
  int64_t asked_to_shrink = 0;
  int64_t warmed = 0;
  double change_seconds = 0.0;  // extra, in the first step with it and in the first one without
  Participation answer = Participation::kJoin;

  ModuleInfo info() const override { return {name_, stage_, bytes, std::min<int64_t>(bytes, 50)}; }
  PreAdapter& pre_adapter() override { return *this; }
  PostAggregator& post_aggregator() override { return aggregator_; }
  StepEngine& Attach(StepEngine& next, ModuleMask bit) override {
    next_ = &next;
    bit_ = bit;
    return *this;
  }
  void Detach() override {}
  Status Resize(int64_t) override {
    ++asked_to_shrink;
    return Unsupported("will not");
  }
  ModuleStats stats() const override { return {}; }
  Status Warm() override {
    ++warmed;
    return {};
  }
  Result<Participation> Adapt(const RequestView&) override { return answer; }

  Status Advance(std::span<SequenceTask> tasks) override {
    TENON_RETURN_IF_ERROR(next_->Advance(tasks));
    const bool is_on =
        std::ranges::any_of(tasks, [&](const auto& task) { return (task.modules & bit_) != 0; });
    if (is_on != std::exchange(was_on_, is_on))
      world_.Pass(change_seconds);
    if (!is_on)
      return {};
    world_.Pass(-0.010 * saves);
    ++steps_;
    if (tail_every > 0 && steps_ % tail_every == 0)
      world_.Pass(tail_seconds);
    for (SequenceTask& task : tasks) {
      if ((task.modules & bit_) != 0 && steps_ % 3 == 0 && !task.decided.empty())
        Break(task);
    }
    return {};
  }
  PendingWork Pending(SequenceTask& task) override { return next_->Pending(task); }
  void Forget(SequenceKey) override {}
  StepCapacity capacity() const override { return next_->capacity(); }

 private:
  void Break(SequenceTask& task) const {
    if (fault == Fault::kWrongToken)
      task.decided.back().token = (task.decided.back().token + 1) % kVocab;
    else if (fault == Fault::kLostToken)
      task.decided.clear();
  }

  World& world_;
  std::string name_;
  ModuleStage stage_;
  WholeSequences aggregator_;
  StepEngine* next_ = nullptr;
  ModuleMask bit_ = 0;
  int64_t steps_ = 0;
  bool was_on_ = false;
};

struct Request {
  Request(KvPool& pool, SequenceKey name)
      : key(name), sampler(*Sampler::Create(Params(), kVocab)), sequence(pool, CacheScope{}) {
    tokens = {TokenAt(0), TokenAt(1), TokenAt(2)};
    EXPECT_TRUE(sampler.AcceptPrompt(tokens).ok());
  }
  static SamplingParams Params() {
    SamplingParams params;
    params.temperature = 0.0F;
    return params;
  }
  SequenceKey key;
  std::vector<int32_t> tokens;
  Sampler sampler;
  Sequence sequence;
};

class SupervisedTest : public ::testing::Test {
 protected:
  SupervisedTest() : plain_(world_), chain_(plain_, kVocab) {
    KvConfig config;
    config.layers = 1;
    config.kv_heads = 1;
    config.head_dim = 8;
    config.blocks = 64;
    pool_ = std::make_unique<KvPool>(*KvPool::Create(config));
  }

  FaultyModule& AddModule(const std::string& name, ModuleStage stage, double saves) {
    auto module = std::make_unique<FaultyModule>(world_, name, stage);
    FaultyModule& added = *module;
    added.saves = saves;
    EXPECT_TRUE(chain_.Add(std::move(module)).ok());
    return added;
  }

  void Start(const ModuleQuotas& quotas = {}) {
    auto engine = SupervisedEngine::Create(chain_, {}, quotas, [this] { return world_.now; });
    ASSERT_TRUE(engine.ok()) << engine.error().ToString();
    engine_ = *std::move(engine);
  }

  void Run(int64_t steps) {
    for (int64_t i = 0; i < steps; ++i)
      Step();
  }

  void Step() {
    while (requests_.size() < 3)
      requests_.push_back(std::make_unique<Request>(*pool_, ++last_key_));
    std::vector<SequenceTask> tasks;
    std::vector<Sampler*> samplers;
    for (const auto& request : requests_)
      samplers.push_back(&request->sampler);
    for (size_t i = 0; i < requests_.size(); ++i) {
      Request& request = *requests_[i];
      SequenceTask task;
      task.key = request.key;
      task.sequence = &request.sequence;
      task.tokens = request.tokens;
      task.prompt_tokens = 3;
      task.samplers = {&samplers[i], 1};
      task.compute = engine_->Pending(task).tokens;
      ASSERT_TRUE(ReserveNow(request.sequence, task.compute).ok());
      tasks.push_back(std::move(task));
    }
    const Status status = engine_->Advance(tasks);
    ASSERT_TRUE(status.ok()) << status.error().ToString();
    for (size_t i = 0; i < tasks.size(); ++i) {
      for (const SampledToken& sampled : tasks[i].decided)
        requests_[i]->tokens.push_back(sampled.token);
    }
    FinishRequests();
  }

  void FinishRequests() {
    for (const auto& request : requests_) {
      if (request->tokens.size() < kAnswer)
        continue;
      ++finished_;
      for (size_t i = 0; i < request->tokens.size(); ++i)
        EXPECT_EQ(request->tokens[i], TokenAt(i));
      engine_->Forget(request->key);
    }
    std::erase_if(requests_, [](const auto& r) { return r->tokens.size() >= kAnswer; });
  }

  SupervisionState StateOf(const std::string& name) {
    for (const auto& entry : engine_->report().modules) {
      if (entry.supervision.name == name)
        return entry.supervision.state;
    }
    ADD_FAILURE() << name;
    return SupervisionState::kOff;
  }

  World world_;
  FormulaEngine plain_;
  ModuleChain chain_;
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<SupervisedEngine> engine_;
  std::vector<std::unique_ptr<Request>> requests_;
  SequenceKey last_key_ = 0;
  int64_t finished_ = 0;
};

TEST_F(SupervisedTest, ModulesThatPayStay) {
  AddModule("routing", ModuleStage::kRouting, 0.3);
  AddModule("ngram", ModuleStage::kSpeculation, 0.4);
  Start();
  Run(2000);
  EXPECT_EQ(StateOf("routing"), SupervisionState::kActive);
  EXPECT_EQ(StateOf("ngram"), SupervisionState::kActive);
  EXPECT_GT(finished_, 100);
  const ManagerReport report = engine_->report();
  EXPECT_TRUE(report.decisions.empty());
  // 10 ms with neither; 3 ms with both.
  EXPECT_NEAR(*report.modules[0].supervision.saving, 1.0 - 3.0 / 6.0, 0.03);
  EXPECT_NEAR(*report.modules[1].supervision.saving, 1.0 - 3.0 / 7.0, 0.03);
}

TEST_F(SupervisedTest, ASlowModuleGoes) {
  AddModule("routing", ModuleStage::kRouting, -0.2);
  AddModule("ngram", ModuleStage::kSpeculation, 0.4);
  Start();
  Run(2000);
  EXPECT_NE(StateOf("routing"), SupervisionState::kActive);
  EXPECT_EQ(StateOf("ngram"), SupervisionState::kActive);
  EXPECT_EQ(engine_->report().decisions.front().rule, ModuleRule::kSaving);
  EXPECT_GT(finished_, 100);
}

TEST_F(SupervisedTest, CorruptionNeverReachesAnAnswerAndEndsInOneModule) {
  for (const Fault fault : {Fault::kWrongToken, Fault::kLostToken}) {
    FaultyModule& bad =
        AddModule(fault == Fault::kLostToken ? "lost" : "wrong", ModuleStage::kRouting, 0.3);
    if (chain_.Find("good") == nullptr)
      AddModule("good", ModuleStage::kSpeculation, 0.4);
    Start();
    Run(300);
    bad.fault = fault;
    Run(1000);
    EXPECT_NE(StateOf(bad.info().name), SupervisionState::kActive);
    EXPECT_EQ(StateOf("good"), SupervisionState::kActive);
    EXPECT_EQ(engine_->report().decisions.front().action, ModuleAction::kDegraded);
    EXPECT_GT(finished_, 50);
    ASSERT_TRUE(chain_.Remove(bad.info().name).ok());
  }
}

TEST_F(SupervisedTest, ATailJumpIsRolledBack) {
  FaultyModule& module = AddModule("routing", ModuleStage::kRouting, 0.5);
  Start();
  Run(600);
  module.tail_every = 30;
  module.tail_seconds = 0.030;
  Run(400);
  EXPECT_NE(StateOf("routing"), SupervisionState::kActive);
  EXPECT_EQ(engine_->report().decisions.front().action, ModuleAction::kRolledBack);
  EXPECT_GT(finished_, 50);
}

TEST_F(SupervisedTest, AMemoryHogIsToldAndThenLeavesTheChain) {
  FaultyModule& module = AddModule("routing", ModuleStage::kRouting, 0.5);
  Start({1000, {{"routing", 0.15}}});
  Run(100);
  module.bytes = 200;
  Run(200);
  EXPECT_EQ(module.asked_to_shrink, 1);
  EXPECT_EQ(StateOf("routing"), SupervisionState::kRefused);
  EXPECT_EQ(chain_.enabled(), kNoModules);
  Run(500);
  EXPECT_GT(finished_, 50);
}

TEST_F(SupervisedTest, SwitchesWithoutDroppingARequest) {
  AddModule("routing", ModuleStage::kRouting, 0.5);
  AddModule("ngram", ModuleStage::kSpeculation, 0.4);
  Start();
  for (int i = 0; i < 100; ++i) {
    Run(7);
    const auto to = i % 2 == 0 ? Supervisor::Switch::kOff : Supervisor::Switch::kOn;
    EXPECT_TRUE(engine_->Set(i % 3 == 0 ? "ngram" : "routing", to).ok());
  }
  EXPECT_FALSE(engine_->Set("none", Supervisor::Switch::kOn).ok());
  EXPECT_GT(finished_, 40);
  // One is exchanged for another while requests run.
  auto other = std::make_unique<FaultyModule>(world_, "ngram", ModuleStage::kSpeculation);
  other->saves = 0.6;
  ASSERT_TRUE(chain_.Replace(std::move(other)).ok());
  ASSERT_TRUE(engine_->ChainChanged().ok());
  Run(200);
  EXPECT_EQ(engine_->report().modules.size(), 2U);
}

TEST_F(SupervisedTest, TellsWhatAChangeOfModulesCosts) {
  FaultyModule& module = AddModule("routing", ModuleStage::kRouting, 0.5);
  Start();
  EXPECT_FALSE(engine_->report().switch_overhead_s.has_value());
  module.change_seconds = 0.004;
  Run(1500);
  const ManagerReport report = engine_->report();
  EXPECT_GE(report.switches, 5U);
  ASSERT_TRUE(report.switch_overhead_s.has_value());
  EXPECT_NEAR(*report.switch_overhead_s, 0.004, 1e-4);
}

TEST_F(SupervisedTest, WarmsWhatTheNextRequestIsLikelyToNeed) {
  FaultyModule& wanted = AddModule("wanted", ModuleStage::kRouting, 0.5);
  FaultyModule& declined = AddModule("declined", ModuleStage::kSpeculation, 0.4);
  declined.answer = Participation::kPass;
  Start();
  // Three requests of 37 steps every 20 s or so.
  for (int i = 0; i < 4; ++i) {
    Run(37);
    ASSERT_TRUE(requests_.empty());
    EXPECT_EQ(engine_->Idle() > world_.now, true);
    world_.Pass(20.0);
  }
  EXPECT_EQ(wanted.warmed, 0) << "it was in use a moment ago";
  const Time look = engine_->Idle();
  EXPECT_EQ(wanted.warmed, 1);
  EXPECT_EQ(declined.warmed, 0) << "requests never need it";
  EXPECT_EQ(engine_->report().warmed, 1U);
  EXPECT_EQ(look, Time::max()) << "the next request is overdue: nothing to wait for";
  engine_->Idle();
  EXPECT_EQ(wanted.warmed, 1) << "warm already";
  world_.Pass(10.0);
  engine_->Idle();
  EXPECT_EQ(wanted.warmed, 2) << "cold again";
}

}  // namespace
}  // namespace tenon
