// All logits of tiny models of each architecture in reference mode, against transformers in fp32 on
// the same weights (scripts/make_arch_golden.py), whole prompt at once and token by token, with and
// without the optimiser's passes.
#include <gtest/gtest.h>

#include <cmath>

#include "frontend/session/source_weights.h"
#include "tiny_cases.h"
#include "tiny_model.h"
#include "tiny_run.h"

namespace tenon {
namespace {

using ::tenon::testing::FindTinyCase;
using ::tenon::testing::LoadTiny;
using ::tenon::testing::ReadTinyCases;
using ::tenon::testing::RunTokens;
using ::tenon::testing::TempFolder;
using ::tenon::testing::TinyCase;
using ::tenon::testing::WorstError;

// Logits of size 1 to 4 are sums of 64 to 96 products whose factors rounding in the layers before
// has moved: some tens of units of 2^-24 = 6e-8. Found: 4e-6 at most in 2 to 7 layers, 8e-6 in 62,
// the 6 decimals of the file included.
constexpr double kTolerance = 2e-5;
// Tokens of the first step where the rest comes token by token; not a multiple of the window.
constexpr size_t kPrompt = 11;

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

INSTANTIATE_TEST_SUITE_P(Architectures, ArchGoldenTest,
                         ::testing::ValuesIn(std::vector<std::string>(
                             std::begin(testing::kTinyCases), std::end(testing::kTinyCases))),
                         [](const auto& tiny) { return tiny.param; });

// Newer files have the latent's two matrices apart.
TEST(ArchGoldenFileTest, DeepseekWithSplitLatents) {
  const TinyCase tiny = FindTinyCase("deepseek3");
  const TempFolder folder;
  const auto source =
      OpenModel(folder.Write("tiny.gguf", TinyGguf(tiny, SplitLatents(tiny, TinyTensors(tiny)))));
  ASSERT_TRUE(source.ok()) << source.error().ToString();
  const SourceWeights weights(*source);
  auto run = LoadTiny(*source, weights, OptimizeLevel::kO3);
  ASSERT_TRUE(run.ok()) << run.error().ToString();
  EXPECT_LE(WorstError(tiny, RunTokens(*run->runner, tiny.tokens, tiny.tokens.size())), kTolerance);
}

TEST(ArchGoldenFileTest, EveryCaseIsInTheList) {
  constexpr size_t kEncoders = 1;
  EXPECT_EQ(ReadTinyCases().size(),
            std::size(testing::kTinyCases) + std::size(testing::kTinyDirectoryCases) + kEncoders);
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
    {"no_attention_cap", "gemma2", [](ModelSource& s) { s.config.attention_softcap = 0.0F; }},
    {"no_final_cap", "gemma2", [](ModelSource& s) { s.config.final_logit_softcap = 0.0F; }},
    {"pattern", "gemma2", [](ModelSource& s) { s.config.sliding_window_pattern = 3; }},
    {"whole_head_rotated", "phi3",
     [](ModelSource& s) { s.config.rope.rotary_dim = s.config.head_dim; }},
    {"window_one_longer", "phi3_window", [](ModelSource& s) { s.config.sliding_window = 17; }},
    {"embedding_factor", "granite", [](ModelSource& s) { s.config.embedding_scale = 1.0F; }},
    {"residual_factor", "granite", [](ModelSource& s) { s.config.residual_scale = 1.0F; }},
    {"attention_factor", "granite", [](ModelSource& s) { s.config.attention_scale = 0.0F; }},
    {"logit_factor", "granite", [](ModelSource& s) { s.config.logit_scale = 1.0F; }},
    {"one_expert_fewer", "mixtral", [](ModelSource& s) { s.config.experts.used = 1; }},
    {"weights_without_sum_of_1", "mixtral",
     [](ModelSource& s) { s.config.experts.normalized = false; }},
    {"weights_with_sum_of_1", "qwen2moe",
     [](ModelSource& s) { s.config.experts.normalized = true; }},
    {"no_shared_expert", "qwen2moe", [](ModelSource& s) { s.config.experts.shared_ffn_size = 0; }},
    {"shared_expert_not_gated", "qwen2moe",
     [](ModelSource& s) { s.by_name.erase("blk.1.ffn_gate_inp_shexp.weight"); }},
    {"weights_without_sum_of_1", "qwen3moe",
     [](ModelSource& s) { s.config.experts.normalized = false; }},
    {"sigmoid", "qwen3moe", [](ModelSource& s) { s.config.experts.sigmoid = true; }},
    {"one_expert_more", "olmoe", [](ModelSource& s) { s.config.experts.used = 4; }},
    {"norm_eps", "olmo2", [](ModelSource& s) { s.config.norm_eps = 1e-3F; }},
    {"interleaved_pairs", "olmo2", [](ModelSource& s) { s.config.rope.interleaved = true; }},
    {"every_layer_rotated", "smollm3", [](ModelSource& s) { s.config.rope_free_layers.clear(); }},
    {"first_layers_not_rotated", "smollm3",
     [](ModelSource& s) {
       s.config.rope_free_layers.assign(9, false);
       s.config.rope_free_layers[0] = s.config.rope_free_layers[4] = true;
     }},
    {"no_output_bias", "gpt2", [](ModelSource& s) { s.by_name.erase("blk.1.attn_output.bias"); }},
    {"relu", "gpt2", [](ModelSource& s) { s.config.activation = Activation::kRelu; }},
    {"serial", "gptneox", [](ModelSource& s) { s.config.parallel_residual = false; }},
    {"whole_head_rotated", "gptneox",
     [](ModelSource& s) { s.config.rope.rotary_dim = s.config.head_dim; }},
    {"relu", "gptneox", [](ModelSource& s) { s.config.activation = Activation::kRelu; }},
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
