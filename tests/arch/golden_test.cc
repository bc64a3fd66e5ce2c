// All logits of tiny models of each architecture in reference mode, against transformers in fp32 on the
// same weights (scripts/make_arch_golden.py), whole prompt at once and token by token, with and without
// the optimiser's passes.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/exec/batch_builder.h"
#include "engine/exec/model_runner.h"
#include "engine/kv/sequence.h"
#include "frontend/session/source_weights.h"
#include "hal/kernel_registry.h"
#include "model/arch/architecture.h"
#include "tiny_model.h"

namespace tenon {
namespace {

using ::tenon::testing::FindTinyCase;
using ::tenon::testing::ReadTinyCases;
using ::tenon::testing::TempFolder;
using ::tenon::testing::TinyCase;

// Logits are sums of 64 or 96 float products of size 0.25 on values that rounding in 2 to 7 layers
// moved: some tens of units of 2^-24 = 6e-8, on logits of size 1 to 5. Written with 6 decimals.
constexpr double kTolerance = 2e-5;
// Tokens of the first step where the rest comes token by token; not a multiple of the window.
constexpr size_t kPrompt = 11;

struct TinyRun {
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<ModelRunner> runner;
};

Result<TinyRun> LoadTiny(const ModelSource& source, const WeightSource& weights,
                         OptimizeLevel level) {
  TinyRun run;
  RunnerOptions options;
  options.plan.max_tokens = 64;
  options.plan.max_outputs = 64;
  options.plan.kv_type = KvType::kF32;
  options.passes.level = level;
  options.passes.activations = ActivationMode::kFloat;
  options.kv_tokens = 64;
  TENON_ASSIGN_OR_RETURN(const KernelSet kernels, ResolveKernelSetFromEnvironment());
  TENON_ASSIGN_OR_RETURN(Graph graph, BuildGraph(source));
  TENON_ASSIGN_OR_RETURN(run.runner,
                         ModelRunner::Prepare(std::move(graph), weights, kernels, options));
  TENON_ASSIGN_OR_RETURN(run.pool, ThreadPool::Create(2));
  TENON_RETURN_IF_ERROR(run.runner->Load(*run.pool, 0));
  return run;
}

// Logits of all tokens, [tokens, vocab]: the first `prompt` in one step, the others one by one.
std::vector<float> RunTokens(ModelRunner& runner, std::span<const int32_t> tokens, size_t prompt) {
  std::vector<float> all;
  Sequence sequence(runner.kv(), CacheScope{}, PrefixCache::kOff);
  EXPECT_TRUE(ReserveNow(sequence, static_cast<int64_t>(tokens.size())).ok());
  for (size_t done = 0; done < tokens.size();) {
    const size_t count = done == 0 ? prompt : 1;
    BatchBuilder builder;
    const int32_t index = builder.AddSequence(sequence.block_table());
    builder.AddTokens(index, tokens.subspan(done, count), static_cast<int64_t>(done),
                      BatchBuilder::Outputs::kAll);
    const auto logits = runner.Step(builder.batch());
    EXPECT_TRUE(logits.ok()) << (logits.ok() ? "" : logits.error().ToString());
    if (!logits.ok())
      return {};
    all.insert(all.end(), logits->begin(), logits->end());
    done += count;
  }
  return all;
}

// The largest absolute difference of a logit.
double WorstError(const TinyCase& tiny, std::span<const float> logits) {
  double worst = 0.0;
  for (const auto& [position, expected] : tiny.positions) {
    const auto row = logits.subspan(static_cast<size_t>(position) * expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const double error = std::abs(static_cast<double>(row[i]) - static_cast<double>(expected[i]));
      // Not std::max, which would pass over a NaN.
      worst = error <= worst ? worst : error;
    }
  }
  return worst;
}

class ArchGoldenTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ArchGoldenTest, MatchesTransformers) {
  const TinyCase tiny = FindTinyCase(GetParam());
  ASSERT_EQ(tiny.positions.size(), 8U);
  for (const auto& entry : tiny.positions)
    ASSERT_EQ(entry.second.size(), static_cast<size_t>(tiny.Int("vocab")));
  const TempFolder folder;
  const auto path = folder.Write("tiny.gguf", TinyGguf(tiny, TinyTensors(tiny)));
  auto source = OpenModel(path);
  ASSERT_TRUE(source.ok()) << source.error().ToString();
  const SourceWeights weights(*source);
  for (const OptimizeLevel level : {OptimizeLevel::kO0, OptimizeLevel::kO3}) {
    auto run = LoadTiny(*source, weights, level);
    ASSERT_TRUE(run.ok()) << run.error().ToString();
    for (const size_t prompt : {tiny.tokens.size(), kPrompt}) {
      const std::vector<float> logits = RunTokens(*run->runner, tiny.tokens, prompt);
      ASSERT_EQ(logits.size(), tiny.tokens.size() * static_cast<size_t>(tiny.Int("vocab")));
      const double worst = WorstError(tiny, logits);
      RecordProperty(level == OptimizeLevel::kO0 ? "max_error_o0" : "max_error_o3",
                     std::to_string(worst));
      EXPECT_LE(worst, kTolerance) << "level " << static_cast<int>(level) << ", prompt " << prompt;
    }
  }
}

// The list is written out, so that a case missing from the data file fails.
INSTANTIATE_TEST_SUITE_P(Architectures, ArchGoldenTest,
                         ::testing::Values("llama", "llama_bias_tied", "mistral_window",
                                           "llama_linear", "llama_llama3", "llama_yarn", "qwen2",
                                           "qwen2_yarn", "qwen3", "gemma3", "gemma3_27b"),
                         [](const auto& tiny) { return tiny.param; });

TEST(ArchGoldenFileTest, EveryCaseIsInTheList) { EXPECT_EQ(ReadTinyCases().size(), 11U); }

}  // namespace
}  // namespace tenon
