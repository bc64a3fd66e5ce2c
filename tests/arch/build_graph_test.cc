// BuildGraph on models whose tensors and hyperparameters disagree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "model/arch/architecture.h"
#include "tiny_cases.h"
#include "tiny_model.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

// The case's hyperparameters and tensors, without bytes.
ModelSource SourceOf(std::string_view name, std::function<void(ModelSource&)> change = {}) {
  const testing::TinyCase tiny = testing::FindTinyCase(name);
  const testing::TempFolder folder;
  auto source = OpenModel(folder.Write("tiny.gguf", TinyGguf(tiny, TinyTensors(tiny))));
  EXPECT_TRUE(source.ok()) << source.error().ToString();
  if (change)
    change(*source);
  return std::move(*source);
}

std::string ErrorOf(const ModelSource& source, ErrorCode code) {
  auto graph = BuildGraph(source);
  EXPECT_FALSE(graph.ok());
  if (graph.ok())
    return "";
  EXPECT_EQ(graph.error().code, code);
  return graph.error().ToString();
}

TEST(BuildGraphTest, UnknownArchitectureListsTheKnownOnes) {
  const ModelSource source =
      SourceOf("llama", [](ModelSource& s) { s.config.architecture = "mamba"; });
  const std::string error = ErrorOf(source, ErrorCode::kUnsupported);
  EXPECT_THAT(error, HasSubstr("'mamba'"));
  EXPECT_THAT(error, HasSubstr("llama, qwen2, qwen3, gemma2, gemma3, phi3, granite, mixtral"));
}

struct TensorOf {
  const char* tiny;    // case
  const char* tensor;  // that the architecture needs
};

class NeededTensorTest : public ::testing::TestWithParam<TensorOf> {};

TEST_P(NeededTensorTest, MissingIsNamed) {
  const ModelSource source =
      SourceOf(GetParam().tiny, [](ModelSource& s) { s.by_name.erase(GetParam().tensor); });
  const std::string error = ErrorOf(source, ErrorCode::kCorrupt);
  EXPECT_THAT(error, HasSubstr(GetParam().tensor));
  EXPECT_THAT(error, HasSubstr("missing"));
}

TEST_P(NeededTensorTest, WrongShapeIsNamedWithBothShapes) {
  std::vector<int64_t> right;
  const ModelSource source = SourceOf(GetParam().tiny, [&right](ModelSource& s) {
    TensorInfo& tensor = s.tensors[s.by_name.at(GetParam().tensor)];
    right = tensor.shape;
    tensor.shape.back() += 7;
  });
  const std::string error = ErrorOf(source, ErrorCode::kCorrupt);
  EXPECT_THAT(error, HasSubstr(GetParam().tensor));
  EXPECT_THAT(error, HasSubstr(fmt::format("{}]", right.back() + 7)));
  EXPECT_THAT(error, HasSubstr(fmt::format("{}]", right.back())));
}

INSTANTIATE_TEST_SUITE_P(Architectures, NeededTensorTest,
                         ::testing::Values(TensorOf{"llama", "token_embd.weight"},
                                           TensorOf{"llama", "blk.0.attn_norm.weight"},
                                           TensorOf{"llama", "blk.1.attn_v.weight"},
                                           TensorOf{"llama", "blk.1.ffn_down.weight"},
                                           TensorOf{"llama", "output_norm.weight"},
                                           TensorOf{"qwen2", "blk.1.attn_output.weight"},
                                           TensorOf{"qwen3", "blk.0.attn_q_norm.weight"},
                                           TensorOf{"qwen3", "blk.1.attn_k_norm.weight"},
                                           TensorOf{"gemma3", "blk.6.post_attention_norm.weight"},
                                           TensorOf{"gemma3", "blk.2.post_ffw_norm.weight"},
                                           TensorOf{"mixtral", "blk.1.ffn_gate_inp.weight"},
                                           TensorOf{"qwen2moe", "blk.0.ffn_up_shexp.weight"},
                                           TensorOf{"qwen3moe", "blk.0.attn_q_norm.weight"},
                                           TensorOf{"olmoe", "blk.1.attn_k_norm.weight"}));

// All that transformers names but the head, instead of which the embedding would serve.
TEST(BuildGraphTest, EveryListedTensorIsNeeded) {
  size_t listed_cases = 0;
  for (const char* name : testing::kTinyCases) {
    const testing::TinyCase tiny = testing::FindTinyCase(name);
    if (tiny.tensors.empty())
      continue;
    ++listed_cases;
    ModelSource source = SourceOf(name);
    for (const testing::TinyCase::Listed& tensor : tiny.tensors) {
      if (tensor.gguf == "output.weight")
        continue;
      auto entry = source.by_name.extract(tensor.gguf);
      EXPECT_THAT(ErrorOf(source, ErrorCode::kCorrupt), HasSubstr(tensor.gguf)) << name;
      source.by_name.insert(std::move(entry));
    }
    EXPECT_TRUE(BuildGraph(source).ok()) << name;
  }
  EXPECT_GE(listed_cases, 2U);
}

// Tensors that may be absent are checked where they are present.
class OptionalTensorTest : public ::testing::TestWithParam<TensorOf> {};

TEST_P(OptionalTensorTest, WrongShapeIsNamed) {
  const ModelSource source = SourceOf(GetParam().tiny, [](ModelSource& s) {
    s.tensors[s.by_name.at(GetParam().tensor)].shape.front() += 1;
  });
  EXPECT_THAT(ErrorOf(source, ErrorCode::kCorrupt), HasSubstr(GetParam().tensor));
}

INSTANTIATE_TEST_SUITE_P(Architectures, OptionalTensorTest,
                         ::testing::Values(TensorOf{"llama", "output.weight"},
                                           TensorOf{"qwen2", "blk.0.attn_k.bias"},
                                           TensorOf{"llama_bias_tied", "blk.1.ffn_up.bias"},
                                           TensorOf{"llama_llama3", "rope_freqs.weight"}));

std::vector<int64_t> Windows(const Graph& graph) {
  std::vector<int64_t> windows;
  for (const Op& op : graph.ops()) {
    if (const auto* attention = std::get_if<AttentionAttrs>(&op.attrs))
      windows.push_back(attention->window);
  }
  return windows;
}

TEST(BuildGraphTest, WindowsOfTheLayers) {
  auto mistral = BuildGraph(SourceOf("mistral_window"));
  ASSERT_TRUE(mistral.ok());
  EXPECT_EQ(Windows(*mistral), (std::vector<int64_t>{16, 16, 16}));
  auto gemma = BuildGraph(SourceOf("gemma3"));
  ASSERT_TRUE(gemma.ok());
  EXPECT_EQ(Windows(*gemma), (std::vector<int64_t>{16, 16, 16, 16, 16, 0, 16}));
}

}  // namespace
}  // namespace tenon
