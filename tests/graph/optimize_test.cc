#include "graph/passes/optimize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/text.h"

namespace tenon {
namespace {

using testing::HasSubstr;

// What the passes are made for, in one small graph of 7 ops.
constexpr const char* kText =
    "%0: f32[N,32] = input  # x\n"
    "@norm: f32[32]\n@gate: q8_0[64,32]\n@up: q8_0[64,32]\n@down: q8_0[32,64]\n"
    "%1: f32[N,32] = rms_norm(%0, @norm) {group=32}  # norm\n"
    "%2: f32[N,64] = linear(%1, @gate)  # gate\n"
    "%3: f32[N,64] = linear(%1, @up)  # up\n"
    "%4: f32[N,64] = silu(%2)  # silu\n"
    "%5: f32[N,64] = mul(%4, %3)  # product\n"
    "%6: f32[N,32] = linear(%5, @down)  # down\n"
    "%7: f32[N,32] = add(%0, %6)  # residual\n"
    "return %7\n";

Graph Sample() {
  return ParseGraph(kText).value();
}

std::vector<std::string> Names(const OptimizeReport& report) {
  std::vector<std::string> names;
  for (const PassStats& stats : report.passes)
    names.push_back(stats.name);
  return names;
}

TEST(OptimizeTest, RunsAllPassesInOrder) {
  Graph graph = Sample();
  const Result<OptimizeReport> report = Optimize(graph, {});
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(Names(*report),
              testing::ElementsAre("dead_code", "common_subexpressions", "fold_scales", "gate_up",
                                   "merge_linears", "residual_epilogue", "rope_into_attention",
                                   "narrow_rows", "explicit_quantize", "quantize_epilogue"));
  EXPECT_EQ(graph.ops().size(), 3u);
}

TEST(OptimizeTest, ReportsOpsAndCostsOfEachPass) {
  Graph graph = Sample();
  const Result<OptimizeReport> report = Optimize(graph, {});
  ASSERT_TRUE(report.ok());
  const PassStats& gate_up = report->passes[3];
  EXPECT_EQ(gate_up.ops_before, 7u);
  EXPECT_EQ(gate_up.ops_after, 4u);
  // Gate and up are no longer written by the linears (2), read and written by silu (2), read by mul
  // (2); x is read once instead of twice: 6 * 64 + 32 floats.
  EXPECT_EQ(gate_up.before.activation_bytes - gate_up.after.activation_bytes, 4 * (6 * 64 + 32));
  EXPECT_EQ(gate_up.before.flops, gate_up.after.flops);
  EXPECT_EQ(gate_up.before.weight_bytes, gate_up.after.weight_bytes);
  for (size_t i = 0; i + 1 < report->passes.size(); ++i) {
    EXPECT_EQ(report->passes[i].ops_after, report->passes[i + 1].ops_before);
    EXPECT_EQ(report->passes[i].after, report->passes[i + 1].before);
    EXPECT_GE(report->passes[i].milliseconds, 0);
  }
  EXPECT_EQ(report->passes.back().after, GraphCost(graph, {}));
}

TEST(OptimizeTest, LevelZeroRunsNothing) {
  Graph graph = Sample();
  PassOptions options;
  options.level = OptimizeLevel::kO0;
  const Result<OptimizeReport> report = Optimize(graph, options);
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->passes.empty());
  EXPECT_EQ(PrintGraph(graph), PrintGraph(Sample()));
}

TEST(OptimizeTest, DisabledPassesDoNotRun) {
  Graph graph = Sample();
  PassOptions options;
  options.disabled = {"gate_up", "explicit_quantize"};
  const Result<OptimizeReport> report = Optimize(graph, options);
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(Names(*report), testing::Not(testing::Contains("gate_up")));
  EXPECT_EQ(report->passes.size(), OptimizePasses().size() - 2);
  EXPECT_THAT(PrintGraph(graph), HasSubstr("silu("));
  EXPECT_THAT(PrintGraph(graph), testing::Not(HasSubstr("act_i8")));
}

TEST(OptimizeTest, UnknownPassesAreRefusedAtEveryLevel) {
  for (const OptimizeLevel level : {OptimizeLevel::kO0, OptimizeLevel::kO3}) {
    Graph graph = Sample();
    PassOptions options;
    options.level = level;
    options.disabled = {"gate_up", "gate_down"};
    const Result<OptimizeReport> report = Optimize(graph, options);
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(report.error().message, HasSubstr("\"gate_down\"; known: dead_code, common_sub"));
    EXPECT_THAT(report.error().message, HasSubstr("quantize_epilogue"));
    EXPECT_EQ(PrintGraph(graph), PrintGraph(Sample()));
  }
}

TEST(OptimizeTest, GraphsThatDoNotVerifyAreRefused) {
  Graph graph = Sample();
  graph.mutable_ops()[0].inputs[0] = ValueId();
  EXPECT_FALSE(Optimize(graph, {}).ok());
  EXPECT_FALSE(RunPass(graph, "dead_code", {}).ok());
}

TEST(OptimizeTest, RunPassRefusesUnknownNames) {
  Graph graph = Sample();
  EXPECT_FALSE(RunPass(graph, "", {}).ok());
}

}  // namespace
}  // namespace tenon
