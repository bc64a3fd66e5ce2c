// Models of Hugging Face directories written as GGUF files: the families that can be have
// transformers' logits when the file is read again.
#include "frontend/convert/gguf_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontend/session/source_weights.h"
#include "tiny_directory.h"
#include "tiny_run.h"

namespace tenon::testing {
namespace {

// As of the golden tests of the formats themselves.
constexpr double kTolerance = 2e-5;

ModelSource OpenDirectoryCase(const TinyCase& tiny, const std::filesystem::path& directory) {
  WriteTinyDirectory(tiny, {}, directory);
  auto source = OpenModel(directory);
  EXPECT_TRUE(source.ok()) << (source.ok() ? "" : source.error().ToString());
  return source.ok() ? std::move(*source) : ModelSource();
}

GgufExportOptions Gpt2Splits() {
  GgufExportOptions options;
  options.pre_tokenizer = "gpt-2";
  return options;
}

class GgufExportTest : public ::testing::TestWithParam<std::string> {};

TEST_P(GgufExportTest, ADirectoryBecomesGgufWithTheSameLogits) {
  const TinyCase tiny = FindTinyCase(GetParam());
  const TempFolder folder;
  const auto directory = folder.Write("marker", {}).parent_path();
  const ModelSource source = OpenDirectoryCase(tiny, directory);
  const auto path = directory / "out.gguf";
  const Status done = ExportGguf(source, Gpt2Splits(), path);
  ASSERT_TRUE(done.ok()) << done.error().ToString();
  const auto again = OpenModel(path);
  ASSERT_TRUE(again.ok()) << again.error().ToString();
  EXPECT_EQ(again->format, "gguf v3");
  const SourceWeights weights(*again);
  auto run = LoadTiny(*again, weights, OptimizeLevel::kO3);
  ASSERT_TRUE(run.ok()) << run.error().ToString();
  EXPECT_LE(WorstError(tiny, RunTokens(*run->runner, tiny.tokens, tiny.tokens.size())), kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Families, GgufExportTest,
                         ::testing::Values("llama", "llama_bias_tied", "llama_linear",
                                           "mistral_window", "mixtral", "mixtral_window", "qwen2",
                                           "qwen3", "olmo2", "smollm3"),
                         [](const auto& tiny) { return tiny.param; });

TEST(GgufExport, RefusesWhatGgufHasNoWordsFor) {
  const TempFolder folder;
  const auto directory = folder.Write("marker", {}).parent_path();
  ModelSource source = OpenDirectoryCase(FindTinyCase("smollm3_irregular"), directory);
  const auto error = [&source] {
    const Status done = CheckGgufExport(source, Gpt2Splits());
    EXPECT_FALSE(done.ok());
    return done.ok() ? "" : done.error().ToString();
  };
  EXPECT_THAT(error(), ::testing::HasSubstr("rotary positions"));
  source.config.rope_free_layers.clear();
  EXPECT_THAT(error(), ::testing::HasSubstr("sliding window"));
  source.config.architecture = "granite";
  EXPECT_THAT(error(), ::testing::HasSubstr("'granite'"));
}

}  // namespace
}  // namespace tenon::testing
