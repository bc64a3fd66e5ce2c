// The chain with made-up engines: order, switching, participation, and what happens to a module
// that loses, doubles, swaps or makes up tokens.
#include "accel/module_chain.h"

#include <gtest/gtest.h>

#include "accel/sequence_integrity.h"

namespace tenon {
namespace {

constexpr int32_t kVocab = 16;

// Decides one token a step, always that of the highest logit: (known tokens * 5) mod vocab.
class FakePlain : public StepEngine {
 public:
  Status Advance(std::span<SequenceTask> tasks) override {
    for (SequenceTask& task : tasks) {
      task.ClearResults();
      const auto length = static_cast<size_t>(task.sequence->length());
      task.sequence->Append(task.tokens.subspan(length, static_cast<size_t>(task.compute)));
      task.computed = task.compute;
      if (task.samplers.empty() || task.sequence->length() < task.known())
        continue;
      std::vector<float> logits(kVocab, 0.0F);
      logits[static_cast<size_t>(task.known() * 5 % kVocab)] = 1.0F;
      auto sampled = task.samplers.front()->Sample(logits);
      task.samplers.front()->Accept(sampled->token);
      task.decided.push_back(std::move(*sampled));
    }
    return {};
  }
  PendingWork Pending(SequenceTask& task) override {
    const int64_t pending = task.known() - task.sequence->length();
    return {pending, pending};
  }
  void Forget(SequenceKey) override {}
  StepCapacity capacity() const override { return {64, 64}; }
};

enum class Fault { kNone, kLost, kDoubled, kSwapped, kMadeUp, kKvAhead };

// Two steps of the next engine at a time, and a fault in what comes back.
class FaultyModule : public Module, public PreAdapter, public StepEngine {
 public:
  FaultyModule(std::string name, ModuleStage stage, Fault fault)
      : name_(std::move(name)), stage_(stage), fault_(fault) {}

  ModuleInfo info() const override { return {name_, stage_, 100, 50}; }
  PreAdapter& pre_adapter() override { return *this; }
  PostAggregator& post_aggregator() override { return whole_; }
  StepEngine& Attach(StepEngine& next, ModuleMask bit) override {
    next_ = &next;
    bit_ = bit;
    return *this;
  }
  void Detach() override { ++detached; }
  ModuleStats stats() const override { return {}; }

  Result<Participation> Adapt(const RequestView& request) override {
    if (request.prompt.front() == 13)
      return InvalidArgument("13 is refused", "prompt");
    return request.prompt.front() == 0 ? Participation::kPass : Participation::kJoin;
  }

  Status Advance(std::span<SequenceTask> tasks) override {
    TENON_RETURN_IF_ERROR(next_->Advance(tasks));
    for (SequenceTask& task : tasks) {
      if ((task.modules & bit_) == 0 || task.decided.empty())
        continue;
      ++worked;
      if (task.most > 1)
        Again(task);
      Break(task);
    }
    return {};
  }
  PendingWork Pending(SequenceTask& task) override { return next_->Pending(task); }
  void Forget(SequenceKey) override { ++forgotten; }
  StepCapacity capacity() const override { return next_->capacity(); }

  int detached = 0;
  int forgotten = 0;
  int worked = 0;

 private:
  void Again(SequenceTask& task) {
    std::vector<SampledToken> first = task.decided;
    std::vector<int32_t> tokens(task.tokens.begin(), task.tokens.end());
    tokens.push_back(first.front().token);
    SequenceTask more = task;
    more.tokens = tokens;
    more.compute = 1;
    ASSERT_TRUE(more.sequence->Reserve(1).ok());
    ASSERT_TRUE(next_->Advance({&more, 1}).ok());
    task.decided.push_back(more.decided.front());
  }
  void Break(SequenceTask& task) {
    switch (fault_) {
      case Fault::kNone:
        break;
      case Fault::kLost:
        task.decided.erase(task.decided.begin());
        break;
      case Fault::kDoubled:
        task.decided.push_back(task.decided.back());
        break;
      case Fault::kSwapped:
        std::swap(task.decided.front(), task.decided.back());
        break;
      case Fault::kMadeUp:
        task.decided.back().token = (task.decided.back().token + 1) % kVocab;
        break;
      case Fault::kKvAhead:
        ASSERT_TRUE(task.sequence->Reserve(1).ok());
        task.sequence->Append(std::vector<int32_t>{task.decided.back().token});
        break;
    }
  }

  std::string name_;
  ModuleStage stage_;
  Fault fault_;
  StepEngine* next_ = nullptr;
  ModuleMask bit_ = 0;
  WholeSequences whole_;
};

class ModuleChainTest : public ::testing::Test {
 protected:
  ModuleChainTest() : pool_(*KvPool::Create({KvType::kF16, 1, 1, 8, 16})) {}

  FaultyModule& AddModule(ModuleChain& chain, const std::string& name, Fault fault,
                          ModuleStage stage = ModuleStage::kSpeculation) {
    auto module = std::make_unique<FaultyModule>(name, stage, fault);
    FaultyModule& reference = *module;
    EXPECT_TRUE(chain.Add(std::move(module)).ok());
    return reference;
  }

  // An answer of `count` tokens through the chain.
  std::vector<int32_t> Generate(ModuleChain& chain, std::vector<int32_t> prompt, size_t count,
                                ModuleMask modules = kAllModules) {
    SamplingParams params;
    params.temperature = 0.0F;
    auto sampler = Sampler::Create(params, kVocab);
    EXPECT_TRUE(sampler.ok());
    EXPECT_TRUE(sampler->AcceptPrompt(prompt).ok());
    Sampler* const drawing = &*sampler;
    Sequence sequence(pool_, CacheScope{}, PrefixCache::kOff);
    const size_t prompt_size = prompt.size();
    std::vector<int32_t> tokens = std::move(prompt);
    for (int step = 0; tokens.size() < prompt_size + count && step < 1000; ++step) {
      SequenceTask task;
      task.key = 1;
      task.modules = modules;
      task.sequence = &sequence;
      task.tokens = tokens;
      task.prompt_tokens = static_cast<int64_t>(prompt_size);
      task.samplers = {&drawing, 1};
      task.most = static_cast<int64_t>(prompt_size + count - tokens.size());
      task.compute = chain.Pending(task).tokens;
      EXPECT_TRUE(sequence.Reserve(task.compute).ok());
      EXPECT_TRUE(chain.Advance({&task, 1}).ok());
      if (task.failure.has_value()) {
        failure_ = task.failure;
        break;
      }
      for (const SampledToken& sampled : task.decided)
        tokens.push_back(sampled.token);
    }
    chain.Forget(1);
    return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt_size), tokens.end()};
  }

  KvPool pool_;
  FakePlain plain_;
  std::optional<Error> failure_;
};

TEST_F(ModuleChainTest, ModulesStandByStage) {
  ModuleChain chain(plain_, kVocab);
  AddModule(chain, "split", Fault::kNone, ModuleStage::kPhaseSplit);
  AddModule(chain, "guess", Fault::kNone);
  AddModule(chain, "route", Fault::kNone, ModuleStage::kRouting);
  AddModule(chain, "guess2", Fault::kNone);
  std::vector<std::string> names;
  for (const ModuleReport& report : chain.Report())
    names.push_back(report.info.name);
  EXPECT_EQ(names, (std::vector<std::string>{"route", "guess", "guess2", "split"}));
  auto again = std::make_unique<FaultyModule>("route", ModuleStage::kRouting, Fault::kNone);
  EXPECT_FALSE(chain.Add(std::move(again)).ok());
}

TEST_F(ModuleChainTest, AModuleChangesNothingButTheNumberOfSteps) {
  ModuleChain alone(plain_, kVocab);
  const auto expected = Generate(alone, {1, 2}, 9);
  ModuleChain chain(plain_, kVocab);
  FaultyModule& module = AddModule(chain, "pairs", Fault::kNone);
  EXPECT_EQ(Generate(chain, {1, 2}, 9), expected);
  EXPECT_EQ(module.worked, 5);  // four pairs and the last one
  EXPECT_EQ(chain.Report().front().stats.integrity_failures, 0U);
  EXPECT_EQ(chain.Report().front().stats.decided, 9U);
}

class FaultTest : public ModuleChainTest, public ::testing::WithParamInterface<Fault> {};

TEST_P(FaultTest, IsTakenBackAndTheAnswerStaysRight) {
  ModuleChain alone(plain_, kVocab);
  const auto expected = Generate(alone, {3, 1, 4}, 8);
  ModuleChain chain(plain_, kVocab);
  FaultyModule& module = AddModule(chain, "broken", GetParam());
  EXPECT_EQ(Generate(chain, {3, 1, 4}, 8), expected);
  const ModuleReport report = chain.Report().front();
  EXPECT_EQ(report.stats.integrity_failures, 1U);
  EXPECT_EQ(module.worked, 1);  // it never saw the sequence again
}

INSTANTIATE_TEST_SUITE_P(Faults, FaultTest,
                         ::testing::Values(Fault::kLost, Fault::kDoubled, Fault::kSwapped,
                                           Fault::kMadeUp, Fault::kKvAhead));

TEST_F(ModuleChainTest, AdaptersChooseTheirRequests) {
  ModuleChain chain(plain_, kVocab);
  FaultyModule& module = AddModule(chain, "pairs", Fault::kNone);
  Generate(chain, {0, 1}, 4);
  EXPECT_EQ(module.worked, 0);
  EXPECT_EQ(chain.Report().front().stats.passed, 1U);
  Generate(chain, {13, 1}, 4);
  ASSERT_TRUE(failure_.has_value());
  EXPECT_EQ(failure_->message, "13 is refused");
}

TEST_F(ModuleChainTest, RequestsMayDoWithoutModules) {
  ModuleChain chain(plain_, kVocab);
  FaultyModule& module = AddModule(chain, "pairs", Fault::kNone);
  Generate(chain, {1, 1}, 4, kNoModules);
  EXPECT_EQ(module.worked, 0);
  Generate(chain, {1, 1}, 4, chain.MaskOf("pairs"));
  EXPECT_GT(module.worked, 0);
  EXPECT_EQ(chain.MaskOf("unknown"), kNoModules);
}

TEST_F(ModuleChainTest, ModulesComeAndGoBetweenSteps) {
  ModuleChain chain(plain_, kVocab);
  FaultyModule& module = AddModule(chain, "pairs", Fault::kNone);
  ASSERT_TRUE(chain.Switch("pairs", ModuleState::kOff).ok());
  EXPECT_EQ(module.detached, 1);
  Generate(chain, {1, 1}, 4);
  EXPECT_EQ(module.worked, 0);
  ASSERT_TRUE(chain.Switch("pairs", ModuleState::kOn).ok());
  Generate(chain, {1, 1}, 4);
  EXPECT_EQ(module.worked, 2);
  ASSERT_TRUE(
      chain.Replace(std::make_unique<FaultyModule>("pairs", ModuleStage::kRouting, Fault::kNone))
          .ok());
  EXPECT_EQ(chain.Report().front().info.stage, ModuleStage::kRouting);
  ASSERT_TRUE(chain.Remove("pairs").ok());
  EXPECT_TRUE(chain.Report().empty());
  const auto unknown = chain.Switch("pairs", ModuleState::kOn);
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace tenon
