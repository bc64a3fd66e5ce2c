// Random graphs give the same outputs before and after every pass, alone and all together.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "graph/interpreter.h"
#include "graph/passes/optimize.h"
#include "graph/random_graph.h"
#include "graph/test_operators.h"
#include "graph/text.h"
#include "graph/verify.h"

namespace tenon {
namespace {

constexpr uint64_t kSeeds = 100;
constexpr double kTolerance = 1e-9;  // relative to the largest value of the output

void ExpectSameOutputs(const std::vector<Matrix>& expected, const std::vector<Matrix>& found) {
  ASSERT_EQ(expected.size(), found.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(expected[i].data.size(), found[i].data.size());
    double largest = 1;
    for (const double x : expected[i].data)
      largest = std::max(largest, std::fabs(x));
    for (size_t j = 0; j < expected[i].data.size(); ++j) {
      ASSERT_TRUE(std::isfinite(expected[i].data[j]));
      ASSERT_NEAR(expected[i].data[j], found[i].data[j], kTolerance * largest)
          << "output " << i << ", element " << j;
    }
  }
}

TEST(EquivalenceTest, RandomGraphsVerify) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Status status = VerifyGraph(RandomGraph(seed));
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status.error().ToString();
  }
}

// Also counts what each pass changed: a property that never meets a pattern shows nothing.
TEST(EquivalenceTest, EachPassKeepsOutputs) {
  std::map<std::string, int> changed;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Graph original = RandomGraph(seed);
    const std::vector<Matrix> expected = Interpret(original, {});
    for (const Pass& pass : OptimizePasses()) {
      Graph graph = original;
      const Result<PassStats> stats = RunPass(graph, pass.name, {});
      ASSERT_TRUE(stats.ok()) << stats.error().ToString();
      SCOPED_TRACE(std::string(pass.name) + ", seed " + std::to_string(seed) + "\n" +
                   PrintGraph(original) + "became\n" + PrintGraph(graph));
      ExpectSameOutputs(expected, Interpret(graph, {}));
      if (HasFatalFailure())
        return;
      changed[std::string(pass.name)] += PrintGraph(graph) == PrintGraph(original) ? 0 : 1;
    }
  }
  for (const Pass& pass : OptimizePasses()) {
    // quantize_epilogue needs explicit_quantize before it: see the next test.
    const int least = pass.name == "quantize_epilogue" ? -1 : static_cast<int>(kSeeds) / 10;
    EXPECT_GT(changed[std::string(pass.name)], least) << pass.name;
  }
}

TEST(EquivalenceTest, AllPassesKeepOutputs) {
  int with_act_i8 = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Graph original = RandomGraph(seed);
    Graph graph = original;
    PassOptions options;
    options.activations = seed % 4 == 0 ? ActivationMode::kFloat : ActivationMode::kInt8;
    const Result<OptimizeReport> report = Optimize(graph, options);
    ASSERT_TRUE(report.ok()) << report.error().ToString();
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + PrintGraph(original) + "became\n" +
                 PrintGraph(graph));
    ExpectSameOutputs(Interpret(original, {}), Interpret(graph, {}));
    if (HasFatalFailure())
      return;
    with_act_i8 += report->passes.back().ops_after < report->passes.back().ops_before ? 1 : 0;
  }
  EXPECT_GT(with_act_i8, static_cast<int>(kSeeds) / 10);
}

// Every pass may be switched off without breaking the ones after it.
TEST(EquivalenceTest, AllPassesButOneKeepOutputs) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Graph original = RandomGraph(seed);
    const size_t off = seed % OptimizePasses().size();
    PassOptions options;
    options.disabled = {std::string(OptimizePasses()[off].name)};
    Graph graph = original;
    const Result<OptimizeReport> report = Optimize(graph, options);
    ASSERT_TRUE(report.ok()) << report.error().ToString();
    SCOPED_TRACE("seed " + std::to_string(seed) + " without " + options.disabled[0]);
    ExpectSameOutputs(Interpret(original, {}), Interpret(graph, {}));
    if (HasFatalFailure())
      return;
  }
}

TEST(EquivalenceTest, OptimizingTwiceChangesNothingMore) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Graph graph = RandomGraph(seed);
    ASSERT_TRUE(Optimize(graph, {}).ok());
    const std::string once = PrintGraph(graph);
    ASSERT_TRUE(Optimize(graph, {}).ok());
    EXPECT_EQ(PrintGraph(graph), once) << "seed " << seed;
  }
}

TEST(EquivalenceTest, OptimizedGraphsAreReadBackFromText) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Graph graph = RandomGraph(seed);
    ASSERT_TRUE(Optimize(graph, {}).ok());
    const std::string text = PrintGraph(graph);
    const Result<Graph> read = ParseGraph(text, &TestOperators());
    ASSERT_TRUE(read.ok()) << read.error().ToString() << "\n" << text;
    EXPECT_EQ(PrintGraph(*read), text);
  }
}

}  // namespace
}  // namespace tenon
