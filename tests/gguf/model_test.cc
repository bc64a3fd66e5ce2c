#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "gguf/gguf_writer.h"
#include "model/gguf/gguf_model.h"

namespace tenon {
namespace {

using testing::Bytes;
using ::testing::ElementsAre;
using testing::GgufWriter;
using testing::TinyLlama;

ModelSource Load(const GgufWriter& writer) {
  const Bytes bytes = writer.Build();
  auto parsed = ParseGguf(bytes, "test.gguf");
  if (!parsed.ok()) {
    ADD_FAILURE() << parsed.error().ToString();
    return {};
  }
  auto source = ModelFromGguf(std::span(&*parsed, 1));
  if (!source.ok()) {
    ADD_FAILURE() << source.error().ToString();
    return {};
  }
  return std::move(source).value();
}

// TinyLlama's sizes under another architecture's keys.
GgufWriter Tiny(const std::string& architecture) {
  GgufWriter writer = TinyLlama();
  writer.Set("general.architecture", architecture.c_str());
  const std::string prefix = architecture + ".";
  writer.Set(prefix + "block_count", 2U).Set(prefix + "context_length", 128U);
  writer.Set(prefix + "embedding_length", 32U).Set(prefix + "feed_forward_length", 64U);
  writer.Set(prefix + "attention.head_count", 2U).Set(prefix + "attention.head_count_kv", 1U);
  writer.Set(prefix + "attention.layer_norm_rms_epsilon", 1e-6F);
  return writer;
}

TEST(GgufModel, Llama) {
  const ModelSource source = Load(TinyLlama().Set("general.license", "mit"));
  EXPECT_EQ(source.format, "gguf v3");
  EXPECT_EQ(source.tensors.size(), 3U);
  EXPECT_EQ(source.Find("blk.1.attn_q.weight")->dtype, DType::kQ4_0);
  EXPECT_EQ(source.Find("blk.2.attn_q.weight"), nullptr);
  const ModelConfig& config = source.config;
  EXPECT_EQ(config.name, "Tiny");
  EXPECT_EQ(config.licence, "mit");
  EXPECT_EQ(config.layer_count, 2);
  EXPECT_EQ(config.hidden_size, 32);
  EXPECT_EQ(config.head_count, 2);
  EXPECT_EQ(config.kv_head_count, 1);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.ffn_size, 64);
  EXPECT_EQ(config.context_length, 128);
  EXPECT_EQ(config.vocab_size, 4);
  EXPECT_EQ(config.norm_eps, 1e-5F);
  EXPECT_EQ(config.attention_scale, 0.0F);
  const RopeConfig expected{.base = 10000.0F, .rotary_dim = 16, .interleaved = true};
  EXPECT_EQ(config.rope, expected);
  EXPECT_THAT(source.metadata,
              ::testing::Contains(std::pair<std::string, std::string>(
                  "tokenizer.ggml.tokens", "[\"a\", \"b\", \"ab\", \"<|im_end|>\"]")));
}

TEST(GgufModel, PerLayerArrayOfEqualHeads) {
  const auto source = Load(TinyLlama().SetArray<uint32_t>("llama.attention.head_count_kv", {2, 2}));
  EXPECT_EQ(source.config.kv_head_count, 2);
}

TEST(GgufModel, KvHeadsDefaultToHeads) {
  EXPECT_EQ(Load(TinyLlama().Remove("llama.attention.head_count_kv")).config.kv_head_count, 2);
}

TEST(GgufModel, Qwen3HasItsOwnHeadDim) {
  GgufWriter writer = Tiny("qwen3");
  writer.Set("qwen3.attention.key_length", 32U).Set("qwen3.attention.value_length", 32U);
  writer.Set("qwen3.rope.freq_base", 1000000.0F);
  const ModelConfig config = Load(writer).config;
  EXPECT_EQ(config.head_dim, 32);
  EXPECT_EQ(config.rope.rotary_dim, 32);
  EXPECT_EQ(config.rope.base, 1000000.0F);
  EXPECT_FALSE(config.rope.interleaved);
  EXPECT_EQ(Load(Tiny("qwen2")).config.rope.interleaved, false);
}

TEST(GgufModel, Gemma3) {
  GgufWriter writer = Tiny("gemma3");
  writer.Set("gemma3.attention.sliding_window", 512U).Set("gemma3.attention.key_length", 64U);
  writer.Set("gemma3.rope.freq_base", 1000000.0F).Set("gemma3.rope.scaling.type", "linear");
  writer.Set("gemma3.attention.value_length", 64U).Set("gemma3.rope.scaling.factor", 8.0F);
  writer.Set("gemma3.final_logit_softcapping", 30.0F);
  const ModelConfig config = Load(writer).config;
  EXPECT_EQ(config.sliding_window, 512);
  EXPECT_EQ(config.sliding_window_pattern, 6);
  EXPECT_EQ(config.sliding_rope_base, 10000.0F);
  EXPECT_EQ(config.attention_scale, 0.125F);
  EXPECT_EQ(config.final_logit_softcap, 30.0F);
  EXPECT_EQ(config.rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(config.rope.factor, 8.0F);
}

TEST(GgufModel, Gemma3Of62LayersScalesByWidthPerHead) {
  GgufWriter writer = Tiny("gemma3");
  writer.Set("gemma3.block_count", 62U).Set("gemma3.attention.key_length", 64U);
  writer.Set("gemma3.attention.value_length", 64U);
  writer.Add({"blk.61.attn_q.weight", {32}, 0, 128});
  EXPECT_EQ(Load(writer).config.attention_scale, 0.25F);  // 1/sqrt(32 / 2)
}

TEST(GgufModel, EveryFourthLayerOfSmolLm3HasNoRotaryPositions) {
  GgufWriter writer = Tiny("smollm3");
  writer.Set("smollm3.block_count", 5U).Add({"blk.4.attn_q.weight", {32}, 0, 128});
  const ModelConfig config = Load(writer).config;
  EXPECT_THAT(config.rope_free_layers, ElementsAre(false, false, false, true, false));
  EXPECT_TRUE(config.rope.interleaved);
}

// Converters write OLMo 3 as olmo2.
TEST(GgufModel, Olmo2WithAWindowIsRefused) {
  EXPECT_EQ(Load(Tiny("olmo2")).config.sliding_window, 0);
  const Bytes bytes = Tiny("olmo2").Set("olmo2.attention.sliding_window", 4096U).Build();
  auto parsed = ParseGguf(bytes, "test.gguf");
  ASSERT_TRUE(parsed.ok());
  const auto source = ModelFromGguf(std::span(&*parsed, 1));
  ASSERT_FALSE(source.ok());
  EXPECT_EQ(source.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(source.error().ToString(),
              ::testing::HasSubstr("olmo2.attention.sliding_window: 4096 found: OLMo 3"));
}

struct Scaling {
  std::string name;
  GgufWriter writer;
  RopeScaling scaling;
  float factor;
};

TEST(GgufModel, RopeScaling) {
  const auto with = [] { return TinyLlama(); };
  const std::string type = "llama.rope.scaling.type";
  const std::string factor = "llama.rope.scaling.factor";
  const std::vector<Scaling> cases = {
      {"none", with().Set(type, "none").Set(factor, 4.0F), RopeScaling::kNone, 1.0F},
      {"linear", with().Set(type, "linear").Set(factor, 4.0F), RopeScaling::kLinear, 4.0F},
      {"no type", with().Set(factor, 2.0F), RopeScaling::kLinear, 2.0F},
      {"old key", with().Set("llama.rope.scale_linear", 2.0F), RopeScaling::kLinear, 2.0F},
      {"factor 1", with().Set(type, "linear").Set(factor, 1.0F), RopeScaling::kNone, 1.0F},
      {"factor 0", with().Set(type, "linear").Set(factor, 0.0F), RopeScaling::kNone, 1.0F},
      {"yarn", with().Set(type, "yarn").Set(factor, 4.0F), RopeScaling::kYarn, 4.0F},
  };
  for (const Scaling& item : cases) {
    const RopeConfig rope = Load(item.writer).config.rope;
    EXPECT_EQ(rope.scaling, item.scaling) << item.name;
    EXPECT_EQ(rope.factor, item.factor) << item.name;
  }
}

TEST(GgufModel, YarnParameters) {
  GgufWriter writer = TinyLlama();
  writer.Set("llama.rope.scaling.type", "yarn").Set("llama.rope.scaling.factor", 4.0F);
  EXPECT_EQ(Load(writer).config.rope.original_context, 128);
  EXPECT_EQ(Load(writer).config.rope.attention_factor, 0.0F);
  writer.Set("llama.rope.scaling.original_context_length", 32U);
  writer.Set("llama.rope.scaling.yarn_beta_fast", 16.0F);
  writer.Set("llama.rope.scaling.yarn_beta_slow", 2.0F);
  writer.Set("llama.rope.scaling.yarn_ext_factor", 0.5F);
  writer.Set("llama.rope.scaling.attn_factor", 2.0F);
  const RopeConfig rope = Load(writer).config.rope;
  EXPECT_EQ(rope.original_context, 32);
  EXPECT_EQ(rope.beta_fast, 16.0F);
  EXPECT_EQ(rope.beta_slow, 2.0F);
  EXPECT_EQ(rope.ext_factor, 0.5F);
  EXPECT_NEAR(rope.attention_factor, 2.0 * (1.0 + 0.1 * std::log(4.0)), 1e-6);
}

TEST(GgufModel, UnknownArchitectureStillLoads) {
  GgufWriter writer = TinyLlama();
  writer.Set("general.architecture", "mamba").Set("mamba.block_count", 24U);
  writer.Set("mamba.embedding_length", "wide");  // unusable, and nobody's fault
  const ModelSource source = Load(writer);
  EXPECT_EQ(source.config.architecture, "mamba");
  EXPECT_EQ(source.config.layer_count, 24);
  EXPECT_EQ(source.config.hidden_size, 0);
  EXPECT_EQ(source.config.vocab_size, 4);
  EXPECT_EQ(source.tensors.size(), 3U);
}

TEST(GgufTokenizer, Tables) {
  GgufWriter writer = TinyLlama();
  writer.Set("tokenizer.ggml.pre", "smollm")
      .SetArray<float>("tokenizer.ggml.scores", {0, -1, 2, 3});
  writer.Set("tokenizer.ggml.bos_token_id", 1U).Set("tokenizer.ggml.eos_token_id", 2U);
  writer.Set("tokenizer.ggml.padding_token_id", 0xFFFFFFFFU);
  writer.Set("tokenizer.ggml.unknown_token_id", int32_t{-1});
  writer.Set("tokenizer.ggml.eom_token_id", 0U).Set("tokenizer.ggml.add_eos_token", true);
  writer.Set("tokenizer.chat_template", "{{ messages }}");
  const ModelSource source = Load(writer);
  const TokenizerSpec& spec = source.tokenizer;
  EXPECT_EQ(spec.model, "gpt2");
  EXPECT_EQ(spec.pre, "smollm");
  EXPECT_THAT(spec.tokens, ElementsAre("a", "b", "ab", "<|im_end|>"));
  EXPECT_THAT(spec.scores, ElementsAre(0, -1, 2, 3));
  EXPECT_EQ(spec.types[3], TokenType::kControl);
  EXPECT_THAT(spec.merges, ElementsAre("a b"));
  EXPECT_EQ(spec.bos_id, 1);
  EXPECT_EQ(spec.eos_id, 2);
  EXPECT_EQ(spec.padding_id, -1);
  EXPECT_EQ(spec.unknown_id, -1);
  EXPECT_EQ(spec.eot_id, -1);
  EXPECT_THAT(spec.stop_ids, ElementsAre(0, 3));  // eom, and <|im_end|> by its text
  EXPECT_TRUE(spec.add_eos);
  EXPECT_EQ(source.chat_template, "{{ messages }}");
}

TEST(GgufTokenizer, DefaultsDependOnTheModel) {
  EXPECT_FALSE(Load(TinyLlama()).tokenizer.add_bos);
  EXPECT_FALSE(Load(TinyLlama()).tokenizer.add_space_prefix);
  const TokenizerSpec spm = Load(TinyLlama().Set("tokenizer.ggml.model", "llama")).tokenizer;
  EXPECT_TRUE(spm.add_bos);
  EXPECT_TRUE(spm.add_space_prefix);
  EXPECT_TRUE(Load(TinyLlama().Set("tokenizer.ggml.pre", "llama-bpe")).tokenizer.add_bos);
  const auto explicit_no =
      TinyLlama().Set("tokenizer.ggml.model", "llama").Set("tokenizer.ggml.add_bos_token", false);
  EXPECT_FALSE(Load(explicit_no).tokenizer.add_bos);
}

TEST(GgufTokenizer, MayBeAbsent) {
  GgufWriter writer = TinyLlama();
  for (const char* key : {"model", "tokens", "token_type", "merges"})
    writer.Remove(std::string("tokenizer.ggml.") + key);
  const ModelSource source = Load(writer);
  EXPECT_EQ(source.tokenizer.model, "");
  EXPECT_EQ(source.config.vocab_size, 4);
}

}  // namespace
}  // namespace tenon
