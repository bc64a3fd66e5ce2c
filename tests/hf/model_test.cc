// Hugging Face directories as models: hyperparameters, names, ids and templates; what is refused.
#include <bit>
#include <cmath>

#include "hf/hf_test_support.h"
#include "model/tokenizer/tokenizer.h"

namespace tenon::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

ModelSource OpenSmall(const Folder& folder) {
  auto source = OpenModel(folder.path());
  EXPECT_TRUE(source.ok()) << (source.ok() ? "" : source.error().ToString());
  return source.ok() ? std::move(*source) : ModelSource();
}

ModelConfig ConfigOf(const json& config) {
  const Folder folder;
  WriteSmallModel(folder, config);
  return OpenSmall(folder).config;
}

std::string ConfigError(const json& changes) {
  const Folder folder;
  json config = SmallConfig();
  config.update(changes);
  WriteSmallModel(folder, config);
  return OpenError(folder.path());
}

TEST(HfModel, ReadsALlama) {
  const Folder folder;
  WriteSmallModel(folder);
  const ModelSource source = OpenSmall(folder);
  EXPECT_EQ(source.config.architecture, "llama");
  EXPECT_EQ(source.config.name, folder.path().filename().string());
  EXPECT_EQ(source.config.hidden_size, 8);
  EXPECT_EQ(source.config.kv_head_count, 1);
  EXPECT_EQ(source.config.head_dim, 4);
  EXPECT_FLOAT_EQ(source.config.norm_eps, 1e-5F);
  EXPECT_FALSE(source.config.rope.interleaved);
  EXPECT_EQ(source.config.rope.rotary_dim, 4);
  ASSERT_NE(source.Find("blk.0.attn_q.weight"), nullptr);
  EXPECT_EQ(source.Find("blk.0.ffn_down.weight")->shape, (std::vector<int64_t>{8, 12}));
  EXPECT_EQ(source.Find("output.weight"), nullptr);
}

TEST(HfModel, AnyFileOfTheDirectoryWillDo) {
  const Folder folder;
  WriteSmallModel(folder);
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"})
    EXPECT_EQ(OpenError(folder.path() / name), "") << name;
  // A GGUF file beside them is a model of its own.
  folder.Write("other.gguf", "GGUF");
  EXPECT_THAT(OpenError(folder.path() / "other.gguf"), HasSubstr("other.gguf"));
}

TEST(HfModel, MissingFilesAreNamed) {
  for (const char* name : {"model.safetensors", "tokenizer.json"}) {
    const Folder folder;
    WriteSmallModel(folder);
    std::filesystem::remove(folder.path() / name);
    EXPECT_THAT(OpenError(folder.path()), HasSubstr(name)) << name;
  }
}

TEST(HfModel, RopeOfBothVersions) {
  json five = SmallConfig();
  five.erase("rope_theta");
  five.erase("rope_scaling");
  five["rope_parameters"] = {{"rope_type", "llama3"},   {"rope_theta", 5e5},
                             {"factor", 8.0},           {"low_freq_factor", 1.0},
                             {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 32}};
  json four = SmallConfig();
  four["rope_theta"] = 5e5;
  four["rope_scaling"] = {{"type", "llama3"},
                          {"factor", 8.0},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 32}};
  const RopeConfig rope = ConfigOf(five).rope;
  EXPECT_EQ(rope.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(rope.base, 5e5F);
  EXPECT_EQ(rope.factor, 8.0F);
  EXPECT_EQ(rope.original_context, 32);
  EXPECT_EQ(ConfigOf(four).rope, rope);
}

// 0.1 ln(4) + 1; with DeepSeek's two factors, the quotient of two such.
TEST(HfModel, YarnMagnitude) {
  json config = SmallConfig();
  config["rope_scaling"] = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 16}};
  EXPECT_NEAR(ConfigOf(config).rope.attention_factor, 1.1386294F, 1e-6);
  config["rope_scaling"]["mscale"] = 2.0;
  config["rope_scaling"]["mscale_all_dim"] = 1.0;
  EXPECT_NEAR(ConfigOf(config).rope.attention_factor, 1.2772589F / 1.1386294F, 1e-6);
  config["rope_scaling"]["attention_factor"] = 0.5;
  EXPECT_EQ(ConfigOf(config).rope.attention_factor, 0.5F);
}

TEST(HfModel, WindowsOfTheLayers) {
  json config = SmallConfig();
  config["architectures"] = {"MistralForCausalLM"};
  config["sliding_window"] = 16;
  EXPECT_EQ(LayerWindow(ConfigOf(config), 0), 16);
  config["sliding_window"] = nullptr;
  EXPECT_EQ(LayerWindow(ConfigOf(config), 0), 0);
  // Qwen's window is off unless the file says so.
  config["architectures"] = {"Qwen3ForCausalLM"};
  config["sliding_window"] = 16;
  config["max_window_layers"] = 0;
  EXPECT_EQ(LayerWindow(ConfigOf(config), 0), 0);
  config["use_sliding_window"] = true;
  EXPECT_EQ(LayerWindow(ConfigOf(config), 0), 16);
  config["layer_types"] = {"full_attention"};
  EXPECT_EQ(LayerWindow(ConfigOf(config), 0), 0);
}

// SmolLM3: every fourth layer, every n-th, or as the file lists them; these are what may slide.
TEST(HfModel, LayersWithoutRotaryPositions) {
  json config = SmallConfig();
  EXPECT_TRUE(HasRope(ConfigOf(config), 0));
  config["architectures"] = {"SmolLM3ForCausalLM"};
  EXPECT_THAT(ConfigOf(config).rope_free_layers, ElementsAre(false));
  config["no_rope_layer_interval"] = 1;
  EXPECT_THAT(ConfigOf(config).rope_free_layers, ElementsAre(true));
  config["sliding_window"] = 16;
  EXPECT_EQ(LayerWindow(ConfigOf(config), 0), 0);
  config["use_sliding_window"] = true;
  EXPECT_EQ(LayerWindow(ConfigOf(config), 0), 16);
  config["no_rope_layers"] = {1, 0};
  EXPECT_TRUE(HasRope(ConfigOf(config), 0));
  EXPECT_EQ(LayerWindow(ConfigOf(config), 0), 0);
}

TEST(HfModel, WrongLayersWithoutRotaryPositions) {
  const auto with = [](const char* key, const json& value) {
    return ConfigError({{"architectures", {"SmolLM3ForCausalLM"}}, {key, value}});
  };
  EXPECT_THAT(with("no_rope_layers", json::array()), HasSubstr("no_rope_layers: 0 layers found"));
  EXPECT_THAT(with("no_rope_layers", {2}), HasSubstr("no_rope_layers[0]: 2 found"));
  EXPECT_THAT(with("no_rope_layers", {"no"}), HasSubstr("no_rope_layers[0]"));
  EXPECT_THAT(with("no_rope_layer_interval", 0), HasSubstr("no_rope_layer_interval: 0 found"));
}

struct BadConfig {
  json changes;
  const char* expected;
};

TEST(HfModel, WrongFieldsAreNamed) {
  const BadConfig cases[] = {
      {{{"architectures", {"MambaForCausalLM"}}}, "architectures[0]: the architecture 'Mamba"},
      {{{"architectures", nullptr}}, "architectures: missing"},
      {{{"architectures", json::array()}}, "architectures: 0 names"},
      {{{"hidden_size", nullptr}}, "hidden_size: missing"},
      {{{"hidden_size", "8"}}, "hidden_size: a string found, an integer expected"},
      {{{"hidden_size", 0}}, "hidden_size: 0 found"},
      {{{"hidden_size", 1e30}}, "hidden_size"},
      {{{"hidden_size", 16}}, "hidden_size: 16 found, but model.embed_tokens.weight"},
      {{{"num_hidden_layers", 100000}}, "num_hidden_layers"},
      {{{"num_attention_heads", 3}, {"num_key_value_heads", 3}}, "head_dim: missing, and 3 heads"},
      {{{"num_key_value_heads", 3}}, "a divisor of the 2 heads"},
      {{{"vocab_size", 7}}, "vocab_size: 7 found, but model.embed_tokens.weight has 6 rows"},
      {{{"rms_norm_eps", nullptr}}, "rms_norm_eps: missing"},
      {{{"rms_norm_eps", -1.0}}, "rms_norm_eps: -1 found"},
      {{{"hidden_act", "relu"}}, "hidden_act: 'relu' found, 'silu' expected"},
      {{{"rope_theta", 0}}, "rope_theta: 0 found"},
      {{{"rope_scaling", {{"rope_type", "dynamic"}}}}, "rope_scaling.rope_type: 'dynamic'"},
      {{{"rope_scaling", {{"type", "linear"}}}}, "rope_scaling.factor: missing"},
      {{{"partial_rotary_factor", 0.75}}, "partial_rotary_factor"},
      {{{"partial_rotary_factor", 1.5}}, "partial_rotary_factor"},
      {{{"tie_word_embeddings", "yes"}}, "tie_word_embeddings: a string found"},
      {{{"tie_word_embeddings", false}}, "lm_head.weight"},
      {{{"attention_bias", true}}, "bias"},
      {{{"quantization_config", {{"quant_method", "bitsandbytes"}}}},
       "weights quantized by 'bitsandbytes'"},
      {{{"eos_token_id", 6}}, "eos_token_id: 6 found, a token id below 6"},
      {{{"eos_token_id", {1, "x"}}}, "eos_token_id[1]"},
  };
  for (const BadConfig& bad : cases)
    EXPECT_THAT(ConfigError(bad.changes), HasSubstr(bad.expected)) << bad.changes.dump();
}

TEST(HfModel, ConfigsThatAreNoJson) {
  const Folder folder;
  WriteSmallModel(folder);
  for (const char* text : {"", "[]", "{", "{\"a\": 1} x"}) {
    folder.Write("config.json", text);
    EXPECT_THAT(OpenError(folder.path()), HasSubstr("config.json")) << text;
  }
}

struct BadTensors {
  ZeroTensor extra;
  const char* expected;
};

TEST(HfModel, TensorsWithoutAPlaceAreNamed) {
  const BadTensors cases[] = {
      {{"model.layers.0.self_attn.q_proj.bias", {8}}, "q_proj.bias': config.json does not say"},
      {{"model.layers.1.input_layernorm.weight", {8}}, "LlamaForCausalLM with 1 layers has no"},
      {{"model.layers.0.mlp.experts.weight", {8}}, "experts"},
      {{"vision.weight", {8}}, "vision.weight"},
      {{"weight", {8}}, "'weight'"}};
  for (const BadTensors& bad : cases) {
    const Folder folder;
    WriteSmallModel(folder);
    std::vector<ZeroTensor> tensors = SmallTensors();
    tensors.push_back(bad.extra);
    folder.Write("model.safetensors", ZeroFile(tensors));
    const std::string error = OpenError(folder.path());
    EXPECT_THAT(error, HasSubstr(bad.expected));
    EXPECT_THAT(error, HasSubstr("model.safetensors"));
  }
}

TEST(HfModel, DerivedAndTiedTensorsAreLeftOut) {
  const Folder folder;
  WriteSmallModel(folder);
  std::vector<ZeroTensor> tensors = SmallTensors();
  tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", {2}});
  tensors.push_back({"lm_head.weight", {6, 8}});
  folder.Write("model.safetensors", ZeroFile(tensors));
  const ModelSource source = OpenSmall(folder);
  EXPECT_EQ(source.tensors.size(), SmallTensors().size());
  EXPECT_EQ(source.Find("output.weight"), nullptr);
}

TEST(HfModel, IntegersAreNoWeights) {
  const Folder folder;
  WriteSmallModel(folder);
  json header;
  uint64_t at = 0;
  for (const ZeroTensor& tensor : SmallTensors()) {
    const bool first = at == 0;
    uint64_t bytes = first ? 1 : 4;
    for (const int64_t extent : tensor.shape)
      bytes *= static_cast<uint64_t>(extent);
    header[tensor.name] = Entry(first ? "I8" : "F32", tensor.shape, at, at + bytes);
    at += bytes;
  }
  folder.Write("model.safetensors", Container(header.dump(), std::string(at, '\0')));
  EXPECT_THAT(OpenError(folder.path()), HasSubstr("values of type I8"));
}

// -- Ids and templates ---------------------------------------------------------------------------

TEST(HfModel, StopIdsAreTheUnionOfAllFiles) {
  const Folder folder;
  WriteSmallModel(folder);
  folder.Write("generation_config.json", R"({"eos_token_id": [3, 5], "bos_token_id": 4})");
  folder.Write("tokenizer_config.json", R"({"eos_token": {"content": "ab"}, "bos_token": "<s>",
      "model_max_length": 1000000000000000019884624838656})");
  ModelSource source = OpenSmall(folder);
  auto tokenizer = Tokenizer::Create(std::move(source.tokenizer));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().ToString();
  EXPECT_THAT((*tokenizer)->stop_ids(), UnorderedElementsAre(2, 3, 5));
  EXPECT_EQ((*tokenizer)->eos_id(), 2);
  EXPECT_EQ((*tokenizer)->bos_id(), 4);
  EXPECT_EQ((*tokenizer)->vocab_size(), 6);
}

TEST(HfModel, GenerationConfigIsChecked) {
  const Folder folder;
  WriteSmallModel(folder);
  folder.Write("generation_config.json", R"({"eos_token_id": [3, 60]})");
  const std::string error = OpenError(folder.path());
  EXPECT_THAT(error, HasSubstr("generation_config.json"));
  EXPECT_THAT(error, HasSubstr("eos_token_id[1]"));
}

TEST(HfModel, TemplatesByPrecedence) {
  const Folder folder;
  WriteSmallModel(folder);
  EXPECT_EQ(OpenSmall(folder).chat_template, "");
  folder.Write("chat_template.json", R"({"chat_template": "third"})");
  EXPECT_EQ(OpenSmall(folder).chat_template, "third");
  folder.Write("tokenizer_config.json", R"({"chat_template": [
      {"name": "tool_use", "template": "tools"}, {"name": "default", "template": "second"}]})");
  EXPECT_EQ(OpenSmall(folder).chat_template, "second");
  folder.Write("chat_template.jinja", "first");
  EXPECT_EQ(OpenSmall(folder).chat_template, "first");
}

TEST(HfModel, TokenizersOfOtherSizes) {
  const Folder folder;
  WriteSmallModel(folder);
  json tokenizer = SmallTokenizer();
  tokenizer["added_tokens"].erase(1);
  folder.Write("tokenizer.json", tokenizer.dump());
  EXPECT_EQ(OpenSmall(folder).tokenizer.tokens.size(), 6U);
  tokenizer["added_tokens"].push_back({{"id", 6}, {"content", "x"}});
  folder.Write("tokenizer.json", tokenizer.dump());
  EXPECT_THAT(OpenError(folder.path()), HasSubstr("7 tokens, but the model has 6 rows"));
}

// FP8 with one scale, one for each row, and one for each block.
TEST(HfModel, Fp8IsMultipliedByItsScales) {
  struct Scales {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<float> values;
    std::vector<float> expected;  // of the first column's rows
  };
  // The query has 8 rows of 1.0; blocks are of 4 x 8.
  const Scales cases[] = {
      {"weight_scale", {}, {2.0F}, {2, 2, 2, 2, 2, 2, 2, 2}},
      {"weight_scale", {8, 1}, {1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 3, 4, 5, 6, 7, 8}},
      {"weight_scale_inv", {2, 1}, {0.5F, 4.0F}, {.5, .5, .5, .5, 4, 4, 4, 4}}};
  for (const Scales& scales : cases) {
    const Folder folder;
    json config = SmallConfig();
    config["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {4, 8}}};
    WriteSmallModel(folder, config);
    json header;
    std::string data;
    const auto put = [&](const std::string& name, const std::string& dtype,
                         const std::vector<int64_t>& shape, const std::string& bytes) {
      header[name] = Entry(dtype, shape, data.size(), data.size() + bytes.size());
      data += bytes;
    };
    for (const ZeroTensor& tensor : SmallTensors()) {
      int64_t count = 1;
      for (const int64_t extent : tensor.shape)
        count *= extent;
      if (tensor.name.ends_with("q_proj.weight"))
        put(tensor.name, "F8_E4M3", tensor.shape, std::string(static_cast<size_t>(count), '\x38'));
      else
        put(tensor.name, "F32", tensor.shape, std::string(static_cast<size_t>(count) * 4, '\0'));
    }
    put("model.layers.0.self_attn.q_proj." + scales.name, "F32", scales.shape,
        {reinterpret_cast<const char*>(scales.values.data()), scales.values.size() * 4});
    folder.Write("model.safetensors", Container(header.dump(), data));
    const ModelSource source = OpenSmall(folder);
    const TensorInfo* query = source.Find("blk.0.attn_q.weight");
    ASSERT_NE(query, nullptr);
    EXPECT_EQ(query->dtype, DType::kBF16);
    const auto bytes = source.Bytes(*query);
    for (size_t row = 0; row < 8; ++row) {
      uint16_t bits = 0;
      std::memcpy(&bits, bytes.data() + row * 16, 2);
      EXPECT_EQ(std::bit_cast<float>(uint32_t{bits} << 16), scales.expected[row]) << row;
    }
  }
}

}  // namespace
}  // namespace tenon::testing
