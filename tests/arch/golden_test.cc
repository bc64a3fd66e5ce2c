// All logits of tiny models of each architecture in reference mode, against transformers in fp32 on
// the same weights (scripts/make_arch_golden.py), whole prompt at once and token by token, with and
// without the optimiser's passes.
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

// Logits of size 1 to 4 are sums of 64 to 96 products whose factors rounding in the layers before
// has moved: some tens of units of 2^-24 = 6e-8. Found: 4e-6 at most in 2 to 7 layers, 8e-6 in 62,
// the 6 decimals of the file included.
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

// A case's file, opened.
ModelSource OpenTiny(const TinyCase& tiny) {
  const TempFolder folder;
  auto source = OpenModel(folder.Write("tiny.gguf", TinyGguf(tiny, TinyTensors(tiny))));
  EXPECT_TRUE(source.ok()) << source.error().ToString();
  return std::move(*source);
}

class ArchGoldenTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ArchGoldenTest, MatchesTransformers) {
  const TinyCase tiny = FindTinyCase(GetParam());
  ASSERT_EQ(tiny.positions.size(), 8U);
  for (const auto& entry : tiny.positions)
    ASSERT_EQ(entry.second.size(), static_cast<size_t>(tiny.Int("vocab")));
  const ModelSource source = OpenTiny(tiny);
  const SourceWeights weights(source);
  for (const OptimizeLevel level : {OptimizeLevel::kO0, OptimizeLevel::kO3}) {
    auto run = LoadTiny(source, weights, level);
    ASSERT_TRUE(run.ok()) << run.error().ToString();
    for (const size_t prompt : {tiny.tokens.size(), kPrompt}) {
      const std::vector<float> logits = RunTokens(*run->runner, tiny.tokens, prompt);
      ASSERT_EQ(logits.size(), tiny.tokens.size() * static_cast<size_t>(tiny.Int("vocab")));
      const double worst = WorstError(tiny, logits);
      const int number = static_cast<int>(level);
      RecordProperty(fmt::format("max_error_level{}_prompt{}", number, prompt),
                     fmt::format("{:.2e}", worst));
      EXPECT_LE(worst, kTolerance) << "level " << number << ", prompt " << prompt;
    }
  }
}

// The list is written out, so that a case missing from the data file fails.
INSTANTIATE_TEST_SUITE_P(Architectures, ArchGoldenTest,
                         ::testing::Values("llama", "llama_bias_tied", "mistral_window",
                                           "llama_linear", "llama_llama3", "llama_yarn", "qwen2",
                                           "qwen2_yarn", "qwen3", "gemma3", "gemma3_27b"),
                         [](const auto& tiny) { return tiny.param; });

TEST(ArchGoldenFileTest, EveryCaseIsInTheList) {
  EXPECT_EQ(ReadTinyCases().size(), 11U);
}

// One thing that an implementation could get wrong.
struct Mistake {
  const char* name;
  const char* tiny;  // case
  void (*make)(ModelSource& source);
};

const Mistake kMistakes[] = {
    {"half_split_pairs", "llama", [](ModelSource& s) { s.config.rope.interleaved = false; }},
    {"norm_eps", "llama", [](ModelSource& s) { s.config.norm_eps = 1e-3F; }},
    {"no_q_bias", "llama_bias_tied", [](ModelSource& s) { s.by_name.erase("blk.1.attn_q.bias"); }},
    {"window_one_shorter", "mistral_window", [](ModelSource& s) { s.config.sliding_window = 15; }},
    {"window_one_longer", "mistral_window", [](ModelSource& s) { s.config.sliding_window = 17; }},
    {"no_linear_factor", "llama_linear",
     [](ModelSource& s) { s.config.rope.scaling = RopeScaling::kNone; }},
    {"no_llama3_factors", "llama_llama3",
     [](ModelSource& s) { s.by_name.erase("rope_freqs.weight"); }},
    {"yarn_as_linear", "llama_yarn",
     [](ModelSource& s) { s.config.rope.scaling = RopeScaling::kLinear; }},
    {"yarn_betas", "llama_yarn", [](ModelSource& s) { s.config.rope.beta_fast = 32.0F; }},
    {"yarn_magnitude", "qwen2_yarn", [](ModelSource& s) { s.config.rope.attention_factor = 1.0F; }},
    {"no_k_bias", "qwen2", [](ModelSource& s) { s.by_name.erase("blk.0.attn_k.bias"); }},
    {"interleaved_pairs", "qwen3", [](ModelSource& s) { s.config.rope.interleaved = true; }},
    {"pattern", "gemma3", [](ModelSource& s) { s.config.sliding_window_pattern = 5; }},
    {"window_one_longer", "gemma3", [](ModelSource& s) { s.config.sliding_window = 17; }},
    {"local_base", "gemma3", [](ModelSource& s) { s.config.sliding_rope_base = 1e6F; }},
    {"no_global_factor", "gemma3",
     [](ModelSource& s) { s.config.rope.scaling = RopeScaling::kNone; }},
    {"scale_by_head_dim", "gemma3_27b",
     [](ModelSource& s) { s.config.attention_scale = 1.0F / std::sqrt(32.0F); }},
};

class ArchMistakeTest : public ::testing::TestWithParam<Mistake> {};

// The reference logits tell: each mistake moves some logit far beyond the tolerance.
TEST_P(ArchMistakeTest, IsSeen) {
  const TinyCase tiny = FindTinyCase(GetParam().tiny);
  ModelSource source = OpenTiny(tiny);
  GetParam().make(source);
  const SourceWeights weights(source);
  auto run = LoadTiny(source, weights, OptimizeLevel::kO3);
  ASSERT_TRUE(run.ok()) << run.error().ToString();
  const double worst = WorstError(tiny, RunTokens(*run->runner, tiny.tokens, tiny.tokens.size()));
  RecordProperty("error", fmt::format("{:.2e}", worst));
  EXPECT_GT(worst, 100.0 * kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Architectures, ArchMistakeTest, ::testing::ValuesIn(kMistakes),
                         [](const auto& mistake) {
                           return fmt::format("{}_{}", mistake.param.tiny, mistake.param.name);
                         });

}  // namespace
}  // namespace tenon
