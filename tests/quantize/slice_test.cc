// Models cut between sublayers: the pieces run one after the other say what the whole says.
#include "graph/slice.h"

#include <gtest/gtest.h>

#include "arch/tiny_run.h"
#include "frontend/quantize/layered_weights.h"
#include "frontend/quantize/segment_runner.h"
#include "frontend/session/source_weights.h"
#include "hal/kernel_registry.h"
#include "model/arch/architecture.h"
#include "tiny_directory.h"
#include "tiny_file.h"

namespace tenon {
namespace {

using testing::FindTinyCase;
using testing::LoadTiny;
using testing::RunTokens;
using testing::TinyCase;

class EveryFamilyInPieces : public ::testing::TestWithParam<const char*> {};

// The text twice, the second time as two sequences: of those the first is the text's beginning.
TokenSequences TwiceTheText(const TinyCase& tiny) {
  TokenSequences sequences;
  sequences.tokens = tiny.tokens;
  sequences.tokens.insert(sequences.tokens.end(), tiny.tokens.begin(), tiny.tokens.end());
  const auto length = static_cast<int64_t>(tiny.tokens.size());
  sequences.ends = {length, length + 5, 2 * length};
  return sequences;
}

TEST_P(EveryFamilyInPieces, PiecesOneAfterTheOtherAreTheModel) {
  const TinyCase tiny = FindTinyCase(GetParam());
  const testing::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "model");
  testing::WriteTinyDirectory(tiny, {}, folder / "model");
  const auto source = OpenModel(folder / "model");
  ASSERT_TRUE(source.ok()) << source.error().ToString();
  const SourceWeights original(*source);
  auto whole = LoadTiny(*source, original, OptimizeLevel::kO0);
  ASSERT_TRUE(whole.ok()) << whole.error().ToString();
  const std::vector<float> expected = RunTokens(*whole->runner, tiny.tokens, tiny.tokens.size());
  const Graph graph = *BuildGraph(*source);
  const std::vector<GraphRange> ranges = NarrowRanges(graph);
  EXPECT_GE(static_cast<int64_t>(ranges.size()), 2 * tiny.Int("layers") + 2);
  LayeredWeights weights(original);
  const KernelSet kernels = *ResolveKernelSetFromEnvironment();
  const TokenSequences sequences = TwiceTheText(tiny);
  const auto length = static_cast<int64_t>(tiny.tokens.size());
  Matrix states;
  for (const GraphRange& range : ranges) {
    auto runner = SegmentRunner::Create(graph, range, {weights, kernels, *whole->pool},
                                        SliceOutputs::kRangeFirst);
    ASSERT_TRUE(runner.ok()) << runner.error().ToString();
    const Status ran = (*runner)->Run(sequences, states, &states, {});
    ASSERT_TRUE(ran.ok()) << ran.error().ToString();
  }
  ASSERT_EQ(states.rows(), 2 * length);
  const int64_t vocab = states.columns();
  for (int64_t i = 0; i < length * vocab; ++i)
    ASSERT_EQ(std::as_const(states).values()[static_cast<size_t>(i)],
              expected[static_cast<size_t>(i)]);
  for (int64_t i = 0; i < 5 * vocab; ++i)
    ASSERT_EQ(states.Row(length)[i], expected[static_cast<size_t>(i)]);
}

INSTANTIATE_TEST_SUITE_P(Families, EveryFamilyInPieces,
                         ::testing::Values("llama", "llama_bias_tied", "mistral_window", "qwen2",
                                           "qwen3", "gemma2", "gemma3", "phi3", "granite",
                                           "mixtral", "qwen2moe", "qwen3moe", "olmoe", "gpt2",
                                           "gptneox", "gptneox_serial", "opt", "deepseek2",
                                           "deepseek3"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace tenon
