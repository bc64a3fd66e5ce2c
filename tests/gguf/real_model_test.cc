// The two development models, where they are: $TENON_HOME/models/<name>.gguf.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "model/model_source.h"

namespace tenon {
namespace {

std::filesystem::path ModelPath(const std::string& name) {
  const char* home = std::getenv("TENON_HOME");
  return std::filesystem::path(home == nullptr ? "." : home) / "models" / (name + ".gguf");
}

std::vector<int64_t> ShapeOf(const ModelSource& source, std::string_view name) {
  const TensorInfo* tensor = source.Find(name);
  return tensor == nullptr ? std::vector<int64_t>{} : tensor->shape;
}

TEST(RealModel, SmolLM2) {
  const auto path = ModelPath("smollm2-135m-instruct");
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << path << " is missing";
  const auto source = OpenModel(path);
  ASSERT_TRUE(source.ok()) << source.error().ToString();
  EXPECT_EQ(source->tensors.size(), 272U);
  EXPECT_EQ(ShapeOf(*source, "token_embd.weight"), (std::vector<int64_t>{49152, 576}));
  EXPECT_EQ(ShapeOf(*source, "blk.0.ffn_down.weight"), (std::vector<int64_t>{576, 1536}));
  EXPECT_EQ(source->Find("blk.0.ffn_down.weight")->dtype, DType::kQ4_1);
  // Its place, from the gguf package's reader.
  EXPECT_EQ(source->Find("blk.0.ffn_down.weight")->offset, 31868992U);
  const ModelConfig& config = source->config;
  EXPECT_EQ(config.architecture, "llama");
  EXPECT_EQ(config.licence, "apache-2.0");
  EXPECT_EQ(config.layer_count, 30);
  EXPECT_EQ(config.hidden_size, 576);
  EXPECT_EQ(config.head_count, 9);
  EXPECT_EQ(config.kv_head_count, 3);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.ffn_size, 1536);
  EXPECT_EQ(config.context_length, 8192);
  EXPECT_EQ(config.vocab_size, 49152);
  EXPECT_EQ(config.rope.base, 100000.0F);
  EXPECT_TRUE(config.rope.interleaved);
  EXPECT_EQ(source->tokenizer.merges.size(), 48900U);
  EXPECT_EQ(source->tokenizer.tokens[2], "<|im_end|>");
  EXPECT_EQ(source->tokenizer.eos_id, 2);
  EXPECT_EQ(source->chat_template.size(), 368U);
}

TEST(RealModel, Gemma3) {
  const auto path = ModelPath("gemma-3-270m");
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << path << " is missing";
  const auto source = OpenModel(path);
  ASSERT_TRUE(source.ok()) << source.error().ToString();
  EXPECT_EQ(source->tensors.size(), 236U);
  EXPECT_EQ(ShapeOf(*source, "token_embd.weight"), (std::vector<int64_t>{262144, 640}));
  EXPECT_EQ(source->Find("blk.0.ffn_down.weight")->dtype, DType::kQ6_K);
  const ModelConfig& config = source->config;
  EXPECT_EQ(config.architecture, "gemma3");
  EXPECT_EQ(config.layer_count, 18);
  EXPECT_EQ(config.head_count, 4);
  EXPECT_EQ(config.kv_head_count, 1);
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.rope.base, 1000000.0F);
  EXPECT_FALSE(config.rope.interleaved);
  EXPECT_EQ(config.sliding_window, 512);
  EXPECT_EQ(config.sliding_window_pattern, 6);
  EXPECT_EQ(config.sliding_rope_base, 10000.0F);
  EXPECT_EQ(config.attention_scale, 0.0625F);
  EXPECT_EQ(source->tokenizer.model, "llama");
  EXPECT_EQ(source->tokenizer.scores.size(), 262144U);
  EXPECT_TRUE(source->tokenizer.add_bos);
  EXPECT_FALSE(source->tokenizer.add_space_prefix);
}

}  // namespace
}  // namespace tenon
