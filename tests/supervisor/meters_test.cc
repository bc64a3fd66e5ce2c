// The meters and policies of the module manager, each against values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "accel/manager/composition.h"
#include "accel/manager/gain_meter.h"
#include "accel/manager/integrity_meter.h"
#include "accel/manager/memory_quota.h"
#include "accel/manager/monitoring_rules.h"
#include "accel/manager/need_predictor.h"
#include "accel/manager/preloader.h"
#include "accel/manager/shadow_schedule.h"
#include "accel/manager/switch_meter.h"
#include "accel/manager/tail_meter.h"

namespace tenon {
namespace {

using Side = GainMeter::Side;

void AddPair(GainMeter& meter, double with, double without) {
  meter.Observe(Side::kWith, {1, 10, with * 10});
  meter.Observe(Side::kWithout, {1, 10, without * 10});
  meter.EndRound();
}

TEST(GainMeterTest, SavingIsThatOfTheMedians) {
  GainMeter meter;
  for (int i = 0; i < 4; ++i)
    AddPair(meter, 0.006, 0.010);
  EXPECT_FALSE(meter.Saving().has_value());  // too few pairs
  AddPair(meter, 0.900, 0.010);              // one disturbed burst
  ASSERT_TRUE(meter.Saving().has_value());
  EXPECT_NEAR(*meter.Saving(), 0.4, 1e-9);
}

TEST(GainMeterTest, ComparesEqualNumbersOfSequencesOnly) {
  GainMeter meter;
  for (int i = 0; i < 5; ++i) {
    meter.Observe(Side::kWith, {1, 10, 0.050});
    meter.Observe(Side::kWith, {8, 80, 0.080});
    meter.Observe(Side::kWithout, {1, 10, 0.100});
    meter.EndRound();
  }
  EXPECT_NEAR(*meter.Saving(), 0.5, 1e-9);
  meter.Observe(Side::kWith, {2, 10, 1.0});
  meter.Observe(Side::kWithout, {3, 10, 1.0});
  meter.EndRound();  // nothing in common: no pair
  EXPECT_EQ(meter.pairs(), 5U);
}

TEST(GainMeterTest, IgnoresWhatIsNoMeasurement) {
  GainMeter meter;
  for (const StepCost& cost : {StepCost{0, 1, 1.0}, StepCost{1, -1, 1.0}, StepCost{1, 1, 0.0},
                               StepCost{1, 1, std::nan("")}}) {
    meter.Observe(Side::kWith, cost);
    meter.Observe(Side::kWithout, cost);
    meter.EndRound();
  }
  EXPECT_EQ(meter.pairs(), 0U);
}

TEST(ShadowScheduleTest, SpendsItsShareAndTakesTurns) {
  ShadowSchedule schedule(0.05);
  const ModuleBits active = ModuleBits().With(0).With(2);
  const ModuleBits trial = ModuleBits::Only(5);
  int bursts[6] = {};
  int in_burst = 0;
  constexpr int kSteps = 80 * 3 * 10;
  for (int i = 0; i < kSteps; ++i) {
    const auto step = schedule.Next(active, trial);
    if (!step.subject.has_value()) {
      EXPECT_EQ(step.modules, active);
      continue;
    }
    ++in_burst;
    ++bursts[*step.subject];
    EXPECT_EQ(step.modules.Has(*step.subject), *step.subject == 5);
  }
  EXPECT_EQ(in_burst, kSteps / 20);
  EXPECT_EQ(bursts[0], kSteps / 60);
  EXPECT_EQ(bursts[2], kSteps / 60);
  EXPECT_EQ(bursts[5], kSteps / 60);
}

TEST(ShadowScheduleTest, StepsAfterAChangeAreNotMeasured) {
  using Use = ShadowSchedule::Step::Use;
  ShadowSchedule schedule(0.5);  // 4 ordinary steps, 4 in the burst
  std::string uses;
  for (int i = 0; i < 16; ++i)
    uses += schedule.Next(ModuleBits::Only(0), {}).use == Use::kMeasure ? 'm' : 'c';
  EXPECT_EQ(uses, "cmmmcmmmcmmmcmmm");
}

TEST(ShadowScheduleTest, NothingToMeasure) {
  ShadowSchedule off(0.0);
  ShadowSchedule on(0.1);
  for (int i = 0; i < 200; ++i) {
    EXPECT_FALSE(off.Next(ModuleBits::Only(1), {}).subject.has_value());
    EXPECT_FALSE(on.Next({}, {}).subject.has_value());
  }
}

TEST(IntegrityMeterTest, NeedsMoreThanTheShare) {
  IntegrityMeter meter;
  meter.Observe(3, 1);
  EXPECT_FALSE(meter.Exceeds(0.005));  // 1 of 200 is not above 0.5%
  meter.Observe(10, 1);
  EXPECT_TRUE(meter.Exceeds(0.005));
  meter.Observe(400, 0);
  EXPECT_FALSE(meter.Exceeds(0.005));  // 2 of 413
}

TEST(IntegrityMeterTest, ForgetsOldChecks) {
  IntegrityMeter meter;
  meter.Observe(100, 100);
  for (int i = 0; i < 20; ++i)
    meter.Observe(100, 0);
  EXPECT_EQ(meter.failures(), 0);
  EXPECT_EQ(meter.total_failures(), 100U);
  EXPECT_LE(meter.checks(), IntegrityMeter::kMaxChecks);
}

void FillWindow(TailMeter& meter, int64_t sequences, double body, double tail) {
  for (size_t i = 0; i < TailMeter::kWindow; ++i)
    meter.Observe(sequences, i % 64 == 0 ? tail : body);  // 4 of 256 are tail
}

TEST(TailMeterTest, RiseIsAgainstTheOwnBaseline) {
  TailMeter meter;
  FillWindow(meter, 1, 0.010, 0.020);
  EXPECT_FALSE(meter.Rise().has_value());
  FillWindow(meter, 8, 0.080, 0.090);  // another number of sequences: its own baseline
  EXPECT_FALSE(meter.Rise().has_value());
  FillWindow(meter, 1, 0.010, 0.030);
  EXPECT_NEAR(*meter.Rise(), 0.5, 1e-9);
  FillWindow(meter, 1, 0.005, 0.010);  // better: the baseline follows
  EXPECT_NEAR(*meter.Rise(), -0.5, 1e-9);
  FillWindow(meter, 1, 0.010, 0.015);
  EXPECT_NEAR(*meter.Rise(), 0.5, 1e-9);
}

TEST(TailMeterTest, AFewStrayValuesAreNoTail) {
  TailMeter meter;
  FillWindow(meter, 1, 0.010, 0.010);
  for (size_t i = 0; i < TailMeter::kWindow; ++i)
    meter.Observe(1, i < 2 ? 5.0 : 0.010);
  EXPECT_NEAR(*meter.Rise(), 0.0, 1e-9);
}

TEST(MemoryQuotaTest, GrantsShrinksRefuses) {
  const MemoryRequest requests[] = {{"routing", 0.15, 100, 50},
                                    {"quantization", 0.60, 900, 500},
                                    {"phase_splitting", 0.25, 300, 260}};
  const auto grants = GrantMemory(1000, requests);
  ASSERT_TRUE(grants.ok());
  EXPECT_EQ((*grants)[0].verdict, MemoryVerdict::kGranted);
  EXPECT_EQ((*grants)[0].bytes, 100);
  EXPECT_EQ((*grants)[1].verdict, MemoryVerdict::kShrunk);
  EXPECT_EQ((*grants)[1].bytes, 600);
  EXPECT_EQ((*grants)[2].verdict, MemoryVerdict::kRefused);
  EXPECT_EQ((*grants)[2].bytes, 0);
}

TEST(MemoryQuotaTest, RefusesImpossibleShares) {
  const MemoryRequest over[] = {{"a", 0.7, 1, 1}, {"b", 0.4, 1, 1}};
  EXPECT_EQ(GrantMemory(1000, over).error().code, ErrorCode::kInvalidArgument);
  const MemoryRequest nan[] = {{"a", std::nan(""), 1, 1}};
  EXPECT_EQ(GrantMemory(1000, nan).error().where, "module_memory_quota.a");
  const MemoryRequest thirds[] = {{"a", 1.0 / 3, 1, 1}, {"b", 1.0 / 3, 1, 1}, {"c", 1.0 / 3, 1, 1}};
  EXPECT_TRUE(GrantMemory(1000, thirds).ok());
  const MemoryRequest huge[] = {{"a", 1.0, std::numeric_limits<int64_t>::max(), 0}};
  EXPECT_EQ((*GrantMemory(1000, huge))[0].bytes, 1000);
}

TEST(CompositionTest, OneModuleChoosesTheModel) {
  const ModuleInfo routing{"routing", ModuleStage::kRouting, 0, 0};
  const ModuleInfo other{"other", ModuleStage::kRouting, 0, 0};
  const ModuleInfo ngram{"ngram", ModuleStage::kSpeculation, 0, 0};
  const ModuleInfo draft{"draft_model", ModuleStage::kSpeculation, 0, 0};
  const ModuleInfo split{"phase_split", ModuleStage::kPhaseSplit, 0, 0};
  EXPECT_TRUE(CheckComposition(std::vector{routing, ngram, draft, split}).ok());
  EXPECT_TRUE(CheckComposition({}).ok());
  const Status status = CheckComposition(std::vector{routing, ngram, other});
  EXPECT_EQ(status.error().where, "modules.other");
  EXPECT_NE(status.error().message.find("routing"), std::string::npos);
}

TEST(MonitoringRulesTest, NamesTheField) {
  MonitoringRules rules;
  EXPECT_TRUE(CheckRules(rules).ok());
  rules.p99_rollback = std::nan("");
  EXPECT_EQ(CheckRules(rules).error().where, "p99_rollback");
  rules = {};
  rules.min_latency_saving = 1.5;
  EXPECT_EQ(CheckRules(rules).error().where, "min_latency_saving");
}

using Time = NeedPredictor::Time;
Time At(int64_t seconds) {
  return Time(std::chrono::seconds(seconds));
}

TEST(NeedPredictorTest, LearnsWhatFollowsWhat) {
  NeedPredictor predictor;
  EXPECT_DOUBLE_EQ(predictor.NextNeed(0), NeedPredictor::kUnknown);
  // Kinds 1 and 2 alternate; only kind 2 needs module 0.
  for (int i = 0; i < 40; ++i) {
    const size_t kind = i % 2 == 0 ? 1 : 2;
    predictor.ObserveArrival(kind, At(i * 10));
    predictor.ObserveNeed(kind, 0, kind == 2 ? 1.0 : 0.0);
  }
  EXPECT_DOUBLE_EQ(predictor.NextNeed(0), 0.0);  // the last was of kind 2, so kind 1 comes
  predictor.ObserveArrival(1, At(400));
  EXPECT_DOUBLE_EQ(predictor.NextNeed(0), 1.0);
  EXPECT_EQ(*predictor.NextArrival(), At(410));
}

TEST(NeedPredictorTest, WarmsWhatIsNeededSoon) {
  NeedPredictor predictor;
  for (int i = 0; i < 10; ++i) {
    predictor.ObserveArrival(0, At(i * 100));
    predictor.ObserveNeed(0, 0, 1.0);
    predictor.ObserveNeed(0, 1, 0.0);
  }
  const ModuleBits active = ModuleBits().With(0).With(1);
  EXPECT_EQ(ModulesToWarm(predictor, {}, active, {}, At(990)), ModuleBits::Only(0));
  EXPECT_EQ(ModulesToWarm(predictor, {}, active, ModuleBits::Only(0), At(990)), ModuleBits());
  EXPECT_EQ(ModulesToWarm(predictor, {}, active, {}, At(910)), ModuleBits());  // not so soon
}

TEST(SwitchMeter, ComparesTheFirstStepAfterAChangeWithTheNextOne) {
  SwitchMeter meter;
  const ModuleBits with = ModuleBits::Only(0);
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(meter.overhead_s().has_value());
    meter.Observe({}, {2, 2, 0.010});
    meter.Observe(with, {2, 2, 0.013});
    meter.Observe(with, {2, 2, 0.011});
    meter.Observe(with, {0, 0, 0.500});  // a prefill: what follows is no comparison
  }
  EXPECT_EQ(meter.switches(), 5U);
  EXPECT_NEAR(*meter.overhead_s(), 0.002, 1e-12);
  // Another number of sequences says nothing.
  meter.Observe({}, {2, 2, 0.010});
  meter.Observe(with, {2, 2, 0.090});
  meter.Observe(with, {1, 1, 0.010});
  EXPECT_EQ(meter.switches(), 5U);
}

TEST(Preloader, LooksAgainShortlyBeforeTheNextRequest) {
  Preloader preloader;
  const auto at = [](int64_t s) { return Preloader::Time(std::chrono::seconds(s)); };
  const ModuleBits active = ModuleBits::Only(0);
  EXPECT_EQ(preloader.NextLook(at(1)), Preloader::Time::max()) << "no history";
  for (int64_t s : {100, 120, 140}) {
    preloader.Needed(preloader.Arrived(50, at(s)), active, active);
    preloader.Used(active, at(s + 1));
  }
  EXPECT_EQ(preloader.Due(active, at(142)), ModuleBits()) << "in use a second ago";
  EXPECT_EQ(preloader.NextLook(at(142)), at(160) - Preloader::kLead);
  EXPECT_EQ(preloader.Due(active, at(150)), ModuleBits()) << "too early";
  EXPECT_EQ(preloader.Due(active, at(160) - Preloader::kLead), active);
  preloader.Used(active, at(160) - Preloader::kLead);
  EXPECT_EQ(preloader.Due(active, at(161)), ModuleBits());
  EXPECT_EQ(preloader.NextLook(at(161)), Preloader::Time::max()) << "it is overdue";
}

}  // namespace
}  // namespace tenon
