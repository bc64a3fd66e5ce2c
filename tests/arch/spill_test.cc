// Weights that leave memory after each step of the plan give the bits of those that stay, and come
// back from the file.
#include <gtest/gtest.h>

#include "frontend/session/source_weights.h"
#include "hal/kernel_registry.h"
#include "model/arch/architecture.h"
#include "tiny_model.h"
#include "tiny_run.h"

namespace tenon {
namespace {

using ::tenon::testing::FindTinyCase;
using ::tenon::testing::RunTokens;
using ::tenon::testing::TempFolder;
using ::tenon::testing::TinyCase;

Result<std::unique_ptr<ModelRunner>> PrepareWith(const ModelSource& source,
                                                 const WeightSource& weights,
                                                 const WeightSpill& spill) {
  RunnerOptions options;
  options.plan.max_tokens = 64;
  options.plan.max_outputs = 64;
  options.kv_tokens = 64;
  options.spill = spill;
  TENON_ASSIGN_OR_RETURN(const KernelSet kernels, ResolveKernelSetFromEnvironment());
  TENON_ASSIGN_OR_RETURN(Graph graph, BuildGraph(source));
  return ModelRunner::Prepare(std::move(graph), weights, kernels, options);
}

class SpillTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    tiny_ = FindTinyCase(GetParam());
    auto source =
        OpenModel(folder_.Write("tiny.gguf", TinyGguf(tiny_, TinyTensors(tiny_), DType::kQ8_0)));
    ASSERT_TRUE(source.ok()) << source.error().ToString();
    source_ = std::move(*source);
    spill_.directory = folder_.Write("here", {}).parent_path();
  }

  std::vector<float> Logits(const WeightSpill& spill) {
    const SourceWeights weights(source_);
    auto runner = PrepareWith(source_, weights, spill);
    EXPECT_TRUE(runner.ok()) << (runner.ok() ? "" : runner.error().ToString());
    const auto pool = ThreadPool::Create(2);
    if (!runner.ok() || !pool.ok())
      return {};
    const Status loaded = (*runner)->Load(**pool, 0);
    EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().ToString());
    return RunTokens(**runner, tiny_.tokens, 11);
  }

  const TempFolder folder_;
  TinyCase tiny_;
  ModelSource source_;
  WeightSpill spill_;
};

TEST_P(SpillTest, GivesTheSameBits) {
  const std::vector<float> expected = Logits({});
  ASSERT_FALSE(expected.empty());
  for (const int64_t resident : {0, 20000, 1 << 30}) {
    spill_.resident_bytes = resident;
    EXPECT_EQ(Logits(spill_), expected) << resident;
  }
  // The file has no name.
  for (const auto& entry : std::filesystem::directory_iterator(spill_.directory))
    EXPECT_FALSE(entry.path().filename().string().starts_with("spill-")) << entry.path();
}

TEST_P(SpillTest, NeedsWhatOneStepReads) {
  const SourceWeights weights(source_);
  const auto runner = PrepareWith(source_, weights, {});
  ASSERT_TRUE(runner.ok()) << runner.error().ToString();
  const int64_t all = (*runner)->Needs(2).weights;
  EXPECT_EQ(all, (*runner)->weight_bytes());
  const int64_t least = (*runner)->NeedsWith(2, spill_).weights;
  EXPECT_GT(least, 0);
  EXPECT_LT(least, all);
  spill_.resident_bytes = all / 4;
  EXPECT_LE((*runner)->NeedsWith(2, spill_).weights, least + all / 4);
  spill_.resident_bytes = all;
  EXPECT_EQ((*runner)->NeedsWith(2, spill_).weights, all);
}

TEST_P(SpillTest, AMissingDirectoryIsAnError) {
  const SourceWeights weights(source_);
  spill_.directory /= "nowhere";
  auto runner = PrepareWith(source_, weights, spill_);
  ASSERT_TRUE(runner.ok()) << runner.error().ToString();
  const auto pool = ThreadPool::Create(1);
  const Status loaded = (*runner)->Load(**pool, 0);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ErrorCode::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(Families, SpillTest, ::testing::Values("llama", "mixtral", "gpt2"),
                         [](const auto& tiny) { return tiny.param; });

}  // namespace
}  // namespace tenon
