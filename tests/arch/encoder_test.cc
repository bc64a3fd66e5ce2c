// BERT: hidden states against transformers in fp32, and what becomes of them in texts' vectors.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/exec/batch_builder.h"
#include "engine/kv/sequence.h"
#include "frontend/session/source_weights.h"
#include "tiny_directory.h"
#include "tiny_run.h"

namespace tenon::testing {
namespace {

// As in golden_test.cc.
constexpr double kTolerance = 2e-5;

class EncoderTest : public ::testing::Test {
 protected:
  EncoderTest() : tiny_(FindTinyCase("bert")) {
    const TempFolder folder;
    const auto directory = folder.Write("marker", {}).parent_path();
    WriteTinyDirectory(tiny_, {}, directory);
    auto source = OpenModel(directory);
    EXPECT_TRUE(source.ok()) << (source.ok() ? "" : source.error().ToString());
    source_ = std::move(*source);
    weights_ = std::make_unique<SourceWeights>(source_);
  }

  TinyRun Load(Pooling pooling) {
    source_.config.pooling = pooling;
    auto run = LoadTiny(source_, *weights_, OptimizeLevel::kO3);
    EXPECT_TRUE(run.ok()) << (run.ok() ? "" : run.error().ToString());
    return std::move(*run);
  }

  // Each text's vector, all in one step.
  static std::vector<std::vector<float>> Vectors(ModelRunner& runner,
                                                 std::span<const std::span<const int32_t>> texts) {
    std::vector<Sequence> sequences;
    BatchBuilder builder;
    for (const auto& text : texts) {
      sequences.emplace_back(runner.kv(), CacheScope{}, PrefixCache::kOff);
      EXPECT_TRUE(ReserveNow(sequences.back(), static_cast<int64_t>(text.size())).ok());
      builder.AddTokens(builder.AddSequence(sequences.back().block_table()), text, 0,
                        BatchBuilder::Outputs::kLast);
    }
    const auto step = runner.Step(builder.batch(), StepOutputs::kHiddenOnly);
    EXPECT_TRUE(step.ok()) << (step.ok() ? "" : step.error().ToString());
    std::vector<std::vector<float>> vectors;
    const auto size = static_cast<size_t>(runner.hidden_size());
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto row = runner.hidden().subspan(i * size, size);
      vectors.emplace_back(row.begin(), row.end());
    }
    return vectors;
  }

  TinyCase tiny_;
  ModelSource source_;
  std::unique_ptr<SourceWeights> weights_;
};

TEST_F(EncoderTest, HiddenStatesMatchTransformers) {
  EXPECT_EQ(source_.config.pooling, Pooling::kMean);
  const TinyRun run = Load(Pooling::kNone);
  EXPECT_TRUE(run.runner->is_encoder());
  EXPECT_EQ(run.runner->token_count(), tiny_.Int("vocab"));
  const std::vector<float> hidden = RunTokens(*run.runner, tiny_.tokens, tiny_.tokens.size());
  ASSERT_EQ(hidden.size(), tiny_.tokens.size() * static_cast<size_t>(tiny_.Int("hidden")));
  const double worst = WorstError(tiny_, hidden);
  RecordProperty("max_error", fmt::format("{:.2e}", worst));
  EXPECT_LE(worst, kTolerance);
}

TEST_F(EncoderTest, GgufHasTheSameStates) {
  const TempFolder folder;
  auto source = OpenModel(folder.Write("tiny.gguf", TinyGguf(tiny_, TinyTensors(tiny_))));
  ASSERT_TRUE(source.ok()) << source.error().ToString();
  EXPECT_EQ(source->config.pooling, Pooling::kMean);
  source->config.pooling = Pooling::kNone;
  const SourceWeights weights(*source);
  auto run = LoadTiny(*source, weights, OptimizeLevel::kO3);
  ASSERT_TRUE(run.ok()) << run.error().ToString();
  EXPECT_LE(WorstError(tiny_, RunTokens(*run->runner, tiny_.tokens, tiny_.tokens.size())),
            kTolerance);
}

TEST_F(EncoderTest, VectorsAreTheMeanTheFirstOrTheLastState) {
  const std::span<const int32_t> text(tiny_.tokens);
  const TinyRun plain = Load(Pooling::kNone);
  const std::vector<float> states = RunTokens(*plain.runner, text, text.size());
  const auto size = static_cast<size_t>(plain.runner->hidden_size());
  const TinyRun mean = Load(Pooling::kMean);
  const TinyRun first = Load(Pooling::kFirst);
  const TinyRun last = Load(Pooling::kLast);
  const auto means = Vectors(*mean.runner, std::array{text})[0];
  const auto firsts = Vectors(*first.runner, std::array{text})[0];
  const auto lasts = Vectors(*last.runner, std::array{text})[0];
  for (size_t i = 0; i < size; ++i) {
    double sum = 0.0;
    for (size_t at = i; at < states.size(); at += size)
      sum += static_cast<double>(states[at]);
    EXPECT_NEAR(static_cast<double>(means[i]), sum / static_cast<double>(text.size()), 1e-6);
    EXPECT_EQ(firsts[i], states[i]);
    EXPECT_EQ(lasts[i], states[states.size() - size + i]);
  }
}

// Texts of one step do not see each other.
TEST_F(EncoderTest, ANeighbourChangesNoBit) {
  const TinyRun run = Load(Pooling::kMean);
  const std::span<const int32_t> all(tiny_.tokens);
  const std::span<const int32_t> a = all.first(13);
  const std::span<const int32_t> b = all.subspan(13, 30);
  const auto together = Vectors(*run.runner, std::array{a, b});
  EXPECT_EQ(Vectors(*run.runner, std::array{a})[0], together[0]);
  EXPECT_EQ(Vectors(*run.runner, std::array{b})[0], together[1]);
  EXPECT_NE(together[0], together[1]);
}

// Every token sees those after it.
TEST_F(EncoderTest, TheFirstStateDependsOnTheLastToken) {
  const TinyRun run = Load(Pooling::kFirst);
  std::vector<int32_t> changed = tiny_.tokens;
  changed.back() = (changed.back() + 1) % 100;
  const std::span<const int32_t> text(tiny_.tokens);
  const std::span<const int32_t> other(changed);
  EXPECT_NE(Vectors(*run.runner, std::array{text})[0], Vectors(*run.runner, std::array{other})[0]);
}

}  // namespace
}  // namespace tenon::testing
