// All logits of the tiny models from Hugging Face directories, in reference mode, against
// transformers in fp32 on the same weights (scripts/make_arch_golden.py).
#include <gtest/gtest.h>

#include "frontend/session/source_weights.h"
#include "tiny_cases.h"
#include "tiny_directory.h"
#include "tiny_run.h"

namespace tenon::testing {
namespace {

// As in golden_test.cc.
constexpr double kTolerance = 2e-5;

using Transformers = TinyDirectoryOptions::Transformers;

struct HfCase {
  std::string tiny;
  TinyDirectoryOptions options;
};

class HfGoldenTest : public ::testing::TestWithParam<HfCase> {};

// The logits of the case's tokens from a directory that is written so.
std::vector<float> LogitsOf(const TinyCase& tiny, const TinyDirectoryOptions& options) {
  const TempFolder folder;
  const auto directory = folder.Write("marker", {}).parent_path();
  WriteTinyDirectory(tiny, options, directory);
  auto source = OpenModel(directory);
  EXPECT_TRUE(source.ok()) << (source.ok() ? "" : source.error().ToString());
  if (!source.ok())
    return {};
  EXPECT_EQ(source->format, "safetensors");
  const SourceWeights weights(*source);
  auto run = LoadTiny(*source, weights, OptimizeLevel::kO3);
  EXPECT_TRUE(run.ok()) << (run.ok() ? "" : run.error().ToString());
  return run.ok() ? RunTokens(*run->runner, tiny.tokens, 11) : std::vector<float>();
}

TEST_P(HfGoldenTest, MatchesTransformers) {
  const TinyCase tiny = FindTinyCase(GetParam().tiny);
  ASSERT_EQ(tiny.positions.size(), 8U);
  const std::vector<float> logits = LogitsOf(tiny, GetParam().options);
  ASSERT_EQ(logits.size(), tiny.tokens.size() * static_cast<size_t>(tiny.Int("vocab")));
  const double worst = WorstError(tiny, logits);
  RecordProperty("max_error", fmt::format("{:.2e}", worst));
  EXPECT_LE(worst, kTolerance);
}

// BF16 can't hold the reference's weights; rounded ones give the same logits in either type.
TEST(HfTypesTest, Bf16IsItsValues) {
  for (const char* name : {"qwen2", "gemma3", "phi3"}) {
    const TinyCase tiny = FindTinyCase(name);
    const auto floats = LogitsOf(tiny, {.values = TinyDirectoryOptions::Values::kRounded});
    ASSERT_FALSE(floats.empty());
    EXPECT_EQ(LogitsOf(tiny, {.dtype = "BF16"}), floats) << name;
    EXPECT_NE(LogitsOf(tiny, {}), floats) << name;
  }
}

std::vector<HfCase> AllCases() {
  std::vector<HfCase> cases;
  std::vector<const char*> names(std::begin(kTinyCases), std::end(kTinyCases));
  names.insert(names.end(), std::begin(kTinyDirectoryCases), std::end(kTinyDirectoryCases));
  for (const char* name : names) {
    cases.push_back({name, {}});
    cases.push_back({name, {.version = Transformers::k4}});
  }
  for (const char* dtype : {"F16", "F64"}) {
    cases.push_back({"llama", {.dtype = dtype}});
    cases.push_back({"gemma3", {.dtype = dtype}});
    cases.push_back({"phi3", {.dtype = dtype}});
  }
  cases.push_back({"qwen2", {.shards = 3}});
  cases.push_back({"phi3", {.dtype = "F16", .shards = 4}});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Directories, HfGoldenTest, ::testing::ValuesIn(AllCases()),
                         [](const auto& test) {
                           const HfCase& entry = test.param;
                           return fmt::format("{}_transformers{}_{}_{}shards", entry.tiny,
                                              entry.options.version == Transformers::k4 ? 4 : 5,
                                              entry.options.dtype, entry.options.shards);
                         });

}  // namespace
}  // namespace tenon::testing
