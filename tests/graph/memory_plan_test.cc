#include "graph/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "graph/liveness.h"
#include "graph/passes/optimize.h"
#include "graph/random_graph.h"
#include "graph/text.h"

namespace tenon {
namespace {

using testing::HasSubstr;

Graph Parse(const std::string& text) {
  Result<Graph> graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().ToString();
  return std::move(graph).value();
}

ValueId OutputOf(const Graph& graph, size_t op) {
  return graph.ops()[op].outputs[0];
}

MemoryPlan Plan(const Graph& graph, const MemoryPlanOptions& options) {
  Result<MemoryPlan> plan = PlanMemory(graph, options);
  EXPECT_TRUE(plan.ok()) << plan.error().ToString();
  const Status status = CheckMemoryPlan(graph, options, *plan);
  EXPECT_TRUE(status.ok()) << status.error().ToString();
  return std::move(plan).value();
}

const char* const kX = "%0: f32[N,32] = input  # x\n@w: f32[32,32]\n@norm: f32[32]\n";

TEST(MemoryPlanTest, AChainOfElementwiseOpsIsOneBuffer) {
  const Graph graph = Parse(std::string(kX) +
                            "%1: f32[N,32] = silu(%0)\n%2: f32[N,32] = gelu(%1)\n"
                            "%3: f32[N,32] = scale(%2) {factor=2}\n%4: f32[N,32] = mul(%3, %3)\n"
                            "return %4\n");
  const MemoryPlan plan = Plan(graph, {.max_tokens = 3});
  // 3 rows of 32 floats are 384 bytes.
  EXPECT_EQ(plan.peak_bytes, 384);
  EXPECT_EQ(plan.unshared_bytes, 4 * 384);
  EXPECT_EQ(plan.values[OutputOf(graph, 1).index()].in_place_of, OutputOf(graph, 0));
  EXPECT_FALSE(plan.values[OutputOf(graph, 0).index()].in_place_of.valid());
  EXPECT_EQ(plan.values[0].offset, -1);  // the graph's input is not in the arena
  EXPECT_EQ(Plan(graph, {.max_tokens = 3, .in_place = InPlaceMode::kNever}).peak_bytes, 2 * 384);
}

TEST(MemoryPlanTest, SizesAreThoseOfCapacity) {
  const Graph graph = Parse(std::string(kX) +
                            "%1: i32[R] = input  # rows\n@v: q8_0[100,32]\n"
                            "%2: f32[N,32] = silu(%0)\n%3: f32[R,32] = select_rows(%2, %1)\n"
                            "%4: act_i8[R,32] = quantize(%3)\n%5: f32[R,100] = linear(%4, @v)\n"
                            "return %5\n");
  const MemoryPlan plan = Plan(graph, {.max_tokens = 7, .max_outputs = 3});
  EXPECT_EQ(plan.values[OutputOf(graph, 0).index()].bytes, 7 * 32 * 4);
  EXPECT_EQ(plan.values[OutputOf(graph, 1).index()].bytes, 3 * 32 * 4);
  EXPECT_EQ(plan.values[OutputOf(graph, 2).index()].bytes, 3 * 92);  // of a block of 32
  EXPECT_EQ(plan.values[OutputOf(graph, 3).index()].bytes, 3 * 400);
  // Padded to 64: 896 + 384 + 320 + 1216; the largest pair alive at once is 320 + 1216.
  EXPECT_EQ(plan.unshared_bytes, 896 + 384 + 320 + 1216);
  EXPECT_EQ(plan.peak_bytes, 320 + 1216);
}

// What is in place of what: the op's line, and the input that its output must or must not take.
struct InPlaceCase {
  const char* op;
  int taken;  // position of the input, or -1
};

class InPlaceTest : public testing::TestWithParam<InPlaceCase> {};

TEST_P(InPlaceTest, TakesTheDyingInput) {
  const Graph graph = Parse(std::string(kX) +
                            "%1: f32[N,32] = silu(%0)\n%2: f32[N,32] = gelu(%0)\n"
                            "%3: i32[N] = input  # positions\n@up: f32[32,32]\n%4: f32[N,32] = " +
                            std::string(GetParam().op) + "\nreturn %4\n");
  const MemoryPlan plan = Plan(graph, {.max_tokens = 2});
  const Op& op = graph.ops().back();
  const ValueId expected =
      GetParam().taken < 0 ? ValueId() : op.inputs[static_cast<size_t>(GetParam().taken)];
  EXPECT_EQ(plan.values[op.outputs[0].index()].in_place_of, expected);
}

INSTANTIATE_TEST_SUITE_P(
    Ops, InPlaceTest,
    testing::Values(InPlaceCase{"add(%1, %2)", 0}, InPlaceCase{"add(%0, %2)", 1},
                    InPlaceCase{"mul(%1, %1)", 0}, InPlaceCase{"softcap(%1) {cap=1}", 0},
                    InPlaceCase{"linear(%1, @w)", -1},
                    InPlaceCase{"linear(%1, @w, %2) {epilogue=add_residual}", 2},
                    // The residual is also what the product reads.
                    InPlaceCase{"linear(%1, @w, %1) {epilogue=add_residual}", -1},
                    InPlaceCase{"linear(%1, @w, %0) {epilogue=add_residual}", -1},
                    InPlaceCase{"linear(%1, @w, @up) {weight_count=2, epilogue=silu_mul}", -1},
                    InPlaceCase{"rms_norm(%1, @norm) {group=32}", 0},
                    InPlaceCase{"rms_norm(%1, @norm, %2) {group=32, add_residual=true}", 2},
                    InPlaceCase{"rms_norm(%1, @norm, %1) {group=32, add_residual=true}", -1},
                    InPlaceCase{"rope(%1, %3) {head_dim=32, rotary_dim=32}", 0},
                    InPlaceCase{"attention(%1, %2, %2, %3) {heads=1, kv_heads=1, head_dim=32}",
                                -1}));

TEST(MemoryPlanTest, ValuesThatAreReadLaterOrOutputsAreNotTaken) {
  const Graph graph = Parse(std::string(kX) +
                            "%1: f32[N,32] = silu(%0)\n%2: f32[N,32] = gelu(%1)\n"
                            "%3: f32[N,32] = add(%1, %2)\n%4: f32[N,32] = silu(%3)\n"
                            "%5: f32[N,32] = silu(%4)\nreturn %3, %5\n");
  const MemoryPlan plan = Plan(graph, {.max_tokens = 2});
  EXPECT_FALSE(plan.values[OutputOf(graph, 1).index()].in_place_of.valid());
  EXPECT_FALSE(plan.values[OutputOf(graph, 3).index()].in_place_of.valid());
  EXPECT_NE(plan.values[OutputOf(graph, 2).index()].offset,
            plan.values[OutputOf(graph, 4).index()].offset);
}

TEST(MemoryPlanTest, QuantizedOutputsAreOfAnotherSizeAndNotInPlace) {
  const Graph graph = Parse(std::string(kX) +
                            "@q: q8_0[32,32]\n%1: f32[N,32] = silu(%0)\n"
                            "%2: act_i8[N,32] = rms_norm(%1, @norm) {group=32}\n"
                            "%3: f32[N,32] = linear(%2, @q)\nreturn %3\n");
  EXPECT_FALSE(
      Plan(graph, {.max_tokens = 2}).values[OutputOf(graph, 1).index()].in_place_of.valid());
}

TEST(LivenessTest, RangesEndAtTheLastReader) {
  const Graph graph = Parse(std::string(kX) +
                            "%1: f32[N,32] = silu(%0)\n%2: f32[N,32] = gelu(%1)\n"
                            "%3: f32[N,32] = add(%2, %1)\n%4: f32[N,32] = silu(%0)\nreturn %3\n");
  const std::vector<LiveRange> ranges = ComputeLiveness(graph);
  const auto range = [&](size_t op) { return ranges[OutputOf(graph, op).index()]; };
  EXPECT_FALSE(ranges[0].exists());
  EXPECT_EQ(range(0).first, 0);
  EXPECT_EQ(range(0).last, 2);
  EXPECT_EQ(range(1).last, 2);
  EXPECT_EQ(range(2).last, 4);  // an output: after the last op
  EXPECT_EQ(range(3).first, 3);
  EXPECT_EQ(range(3).last, 3);  // unused
}

TEST(MemoryPlanTest, SizesThatOverflowAreRefused) {
  const Graph graph = Parse(std::string(kX) +
                            "%1: f32[N,32] = silu(%0)\n"
                            "%2: f32[N,32] = linear(%1, @w)\nreturn %2\n");
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const int64_t tokens : {kMost, kMost / 128, kMost / 250, int64_t{-1}}) {
    const Result<MemoryPlan> plan = PlanMemory(graph, {.max_tokens = tokens});
    ASSERT_FALSE(plan.ok()) << tokens;
    EXPECT_EQ(plan.error().code, ErrorCode::kResourceExhausted);
  }
  EXPECT_TRUE(PlanMemory(graph, {.max_tokens = kMost / 300}).ok());
}

// The checker finds each kind of damage.
TEST(MemoryPlanTest, CheckerRefusesDamagedPlans) {
  const Graph graph = Parse(std::string(kX) +
                            "%1: f32[N,32] = silu(%0)\n%2: f32[N,32] = linear(%1, @w)\n"
                            "%3: f32[N,32] = add(%1, %2)\nreturn %3\n");
  const MemoryPlanOptions options{.max_tokens = 4};
  const MemoryPlan good = Plan(graph, options);
  const size_t first = OutputOf(graph, 0).index();
  const size_t second = OutputOf(graph, 1).index();
  const auto error = [&](const MemoryPlan& plan) {
    const Status status = CheckMemoryPlan(graph, options, plan);
    return status.ok() ? std::string() : status.error().message;
  };
  MemoryPlan bad = good;
  bad.values[second].offset = bad.values[first].offset;
  EXPECT_THAT(error(bad), HasSubstr("overlaps"));
  bad.values[second].in_place_of = OutputOf(graph, 0);  // does not make it legal
  EXPECT_THAT(error(bad), HasSubstr("overlaps"));
  bad = good;
  bad.values[second].offset += 4;
  EXPECT_THAT(error(bad), HasSubstr("not aligned"));
  bad = good;
  bad.peak_bytes -= kArenaAlignment;
  EXPECT_THAT(error(bad), HasSubstr("past the arena"));
  bad = good;
  bad.values[second].bytes /= 2;
  EXPECT_THAT(error(bad), HasSubstr("bytes, expected 512"));
  bad = good;
  bad.values[second].offset = -1;
  EXPECT_THAT(error(bad), HasSubstr("not aligned"));
  bad.values.pop_back();
  EXPECT_THAT(error(bad), HasSubstr("another graph"));
}

// Plays the ops on an arena whose every 64 bytes remember who wrote them last: each input must be
// there whole when it is read, each graph output at the end.
void ExpectIntact(const Graph& graph, const MemoryPlan& plan) {
  std::vector<ValueId> owner(static_cast<size_t>(plan.peak_bytes / kArenaAlignment));
  const auto units = [&](ValueId id) {
    const ValuePlacement& at = plan.values[id.index()];
    return std::pair(
        static_cast<size_t>(at.offset / kArenaAlignment),
        static_cast<size_t>((at.offset + at.bytes + kArenaAlignment - 1) / kArenaAlignment));
  };
  const auto intact = [&](ValueId id) {
    const auto [begin, end] = units(id);
    return std::all_of(owner.begin() + static_cast<long>(begin),
                       owner.begin() + static_cast<long>(end),
                       [&](ValueId unit) { return unit == id; });
  };
  for (const Op& op : graph.ops()) {
    for (const ValueId input : op.inputs) {
      ASSERT_TRUE(graph.value(input).kind != ValueKind::kTemporary || intact(input))
          << op.name << " reads " << graph.value(input).name;
    }
    for (const ValueId output : op.outputs) {
      const auto [begin, end] = units(output);
      std::fill(owner.begin() + static_cast<long>(begin), owner.begin() + static_cast<long>(end),
                output);
    }
  }
  for (const ValueId output : graph.outputs())
    ASSERT_TRUE(intact(output)) << "graph output " << graph.value(output).name;
}

// The most bytes alive at one op: no plan without in-place reuse can be smaller.
int64_t LowerBound(const Graph& graph, const MemoryPlan& plan) {
  const std::vector<LiveRange> ranges = ComputeLiveness(graph);
  int64_t most = 0;
  for (int64_t op = 0; op < static_cast<int64_t>(graph.ops().size()); ++op) {
    int64_t alive = 0;
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (ranges[i].exists() && ranges[i].first <= op && op <= ranges[i].last)
        alive += plan.values[i].bytes;
    }
    most = std::max(most, alive);
  }
  return most;
}

TEST(MemoryPlanTest, RandomGraphsKeepTheirValues) {
  int reused = 0;
  int in_place = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Graph graph = RandomGraph(seed);
    const bool optimized = seed % 2 == 1;
    ASSERT_TRUE(!optimized || Optimize(graph, {}).ok());
    MemoryPlanOptions options;
    options.max_tokens = static_cast<int64_t>(1 + seed % 9);
    options.max_outputs = static_cast<int64_t>(1 + seed % 4);
    const MemoryPlan plan = Plan(graph, options);
    ExpectIntact(graph, plan);
    options.in_place = InPlaceMode::kNever;
    const MemoryPlan apart = Plan(graph, options);
    ExpectIntact(graph, apart);
    if (HasFailure())
      return;
    EXPECT_GE(apart.peak_bytes, LowerBound(graph, apart));
    EXPECT_LE(apart.peak_bytes, apart.unshared_bytes);
    EXPECT_LE(plan.peak_bytes, plan.unshared_bytes);
    reused += apart.peak_bytes < apart.unshared_bytes ? 1 : 0;
    in_place += plan.peak_bytes < apart.peak_bytes ? 1 : 0;
  }
  EXPECT_GT(reused, 250);
  EXPECT_GT(in_place, 30);
}

}  // namespace
}  // namespace tenon
