#include "tiny_directory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "quant/half.h"
#include "tiny_families.h"

namespace tenon::testing {
namespace {

using nlohmann::json;

const std::map<std::string, std::string> kLayerNames = {
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"attn_norm", "input_layernorm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"attn_qkv", "self_attn.qkv_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"}};
// Of "blk.N.<part>.<expert>".
const std::map<std::string, std::string> kExpertNames = {
    {"ffn_gate", "gate_proj"}, {"ffn_up", "up_proj"}, {"ffn_down", "down_proj"}};
const std::map<std::string, std::string> kMixtralNames = {
    {"ffn_gate", "w1"}, {"ffn_up", "w3"}, {"ffn_down", "w2"}};
const std::map<std::string, std::string> kGemmaNames = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"}};
const std::map<std::string, std::string> kTopNames = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};

// "ffn_gate.3" of a layer.
std::string HfExpertName(const std::string& part, const std::string& arch) {
  const size_t dot = part.find('.');
  const std::string name = part.substr(0, dot);
  const bool mixtral = arch == "mixtral";
  return fmt::format("{}.experts.{}.{}", mixtral ? "block_sparse_moe" : "mlp", part.substr(dot + 1),
                     mixtral ? kMixtralNames.at(name) : kExpertNames.at(name));
}

std::string HfName(const std::string& gguf, const TinyCase& tiny) {
  const std::string arch = tiny.Text("arch");
  for (const TinyCase::Listed& tensor : tiny.tensors) {
    if (tensor.gguf == gguf)
      return tensor.hf;
  }
  if (IsTinyPlain(arch) || IsTinyDeepseek(arch))
    return TinyFamilyHfName(gguf, arch);
  const size_t dot = gguf.rfind('.');
  const std::string stem = gguf.substr(0, dot);
  const std::string kind = gguf.substr(dot);
  if (kTopNames.contains(stem))
    return kTopNames.at(stem) + kind;
  const size_t layer_end = stem.find('.', 4);
  const std::string part = stem.substr(layer_end + 1);
  // Both formats call Phi-3's gate and up one thing, but not the same.
  if (arch == "phi3" && part == "ffn_up")
    return fmt::format("model.layers.{}.mlp.gate_up_proj{}", stem.substr(4, layer_end - 4), kind);
  if (part.find('.') != std::string::npos || (arch == "mixtral" && part == "ffn_gate_inp")) {
    return fmt::format("model.layers.{}.{}{}", stem.substr(4, layer_end - 4),
                       part == "ffn_gate_inp" ? "block_sparse_moe.gate" : HfExpertName(part, arch),
                       kind);
  }
  const bool gemma = arch.starts_with("gemma") && kGemmaNames.contains(part);
  return fmt::format("model.layers.{}.{}{}", stem.substr(4, layer_end - 4),
                     gemma ? kGemmaNames.at(part) : kLayerNames.at(part), kind);
}

template <class T>
void PutValue(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

std::string ValuesAs(const std::string& dtype, const std::vector<float>& values) {
  std::string out;
  for (const float value : values) {
    if (dtype == "F16")
      PutValue(out, F32ToF16(value));
    else if (dtype == "BF16")
      PutValue(out, F32ToBF16(value));
    else if (dtype == "F64")
      PutValue(out, static_cast<double>(value));
    else
      PutValue(out, value);
  }
  return out;
}

std::vector<RawTensor> RawTensors(const TinyCase& tiny, const TinyDirectoryOptions& options) {
  const std::string& dtype = options.dtype;
  std::vector<RawTensor> raw;
  for (TinyTensor tensor : SplitExperts(TinyHfTensors(tiny))) {
    // 1 plus a value is not exact in 16 bits.
    const std::string type = tensor.shape.size() == 1 && dtype == "F16" ? "F32" : dtype;
    if (options.values == TinyDirectoryOptions::Values::kRounded) {
      for (float& value : tensor.values)
        value = BF16ToF32(F32ToBF16(value));
    }
    raw.push_back({HfName(tensor.name, tiny), type, tensor.shape, ValuesAs(type, tensor.values)});
  }
  return raw;
}

json RopeParameters(const TinyCase& tiny) {
  const std::string kind = tiny.Has("rope") ? tiny.Text("rope") : "default";
  json rope = {{"rope_type", kind}};
  if (kind != "default")
    rope["factor"] = tiny.Float("factor");
  const std::pair<const char*, const char*> numbers[] = {{"low_freq_factor", "low"},
                                                         {"high_freq_factor", "high"},
                                                         {"beta_fast", "beta_fast"},
                                                         {"beta_slow", "beta_slow"}};
  for (const auto& [key, setting] : numbers) {
    if (tiny.Has(setting))
      rope[key] = tiny.Float(setting);
  }
  if (tiny.Has("original"))
    rope["original_max_position_embeddings"] = tiny.Int("original");
  return rope;
}

// transformers 5: everything of rotary positions in one object, by kind of layer in Gemma 3.
void SetRope5(const TinyCase& tiny, json& config) {
  json rope = RopeParameters(tiny);
  rope["rope_theta"] = tiny.Float("theta");
  if (tiny.Has("partial"))
    rope["partial_rotary_factor"] = tiny.Float("partial");
  if (tiny.Has("local_theta")) {
    config["rope_parameters"] = {
        {"full_attention", rope},
        {"sliding_attention",
         {{"rope_type", "default"}, {"rope_theta", tiny.Float("local_theta")}}}};
  } else {
    config["rope_parameters"] = rope;
  }
}

void SetRope4(const TinyCase& tiny, json& config) {
  config["rope_theta"] = tiny.Float("theta");
  config["rope_scaling"] = tiny.Has("rope") ? RopeParameters(tiny) : json();
  if (tiny.Has("partial"))
    config["partial_rotary_factor"] = tiny.Float("partial");
  if (tiny.Has("local_theta"))
    config["rope_local_base_freq"] = tiny.Float("local_theta");
}

void SetWindow(const TinyCase& tiny, TinyDirectoryOptions::Transformers version, json& config) {
  const std::string arch = tiny.Text("arch");
  if (!tiny.Has("window"))
    return;
  config["sliding_window"] = tiny.Int("window");
  const int64_t pattern = arch == "gemma2" ? 2 : arch == "gemma3" ? 6 : 0;
  if (pattern == 0)
    return;
  if (version == TinyDirectoryOptions::Transformers::k4) {
    config["sliding_window_pattern"] = pattern;
    return;
  }
  for (int64_t layer = 1; layer <= tiny.Int("layers"); ++layer)
    config["layer_types"].push_back(layer % pattern == 0 ? "full_attention" : "sliding_attention");
}

const std::map<std::string, std::string> kArchitectures = {
    {"llama", "LlamaForCausalLM"},       {"qwen2", "Qwen2ForCausalLM"},
    {"qwen3", "Qwen3ForCausalLM"},       {"gemma2", "Gemma2ForCausalLM"},
    {"gemma3", "Gemma3ForCausalLM"},     {"phi3", "Phi3ForCausalLM"},
    {"granite", "GraniteForCausalLM"},   {"mixtral", "MixtralForCausalLM"},
    {"qwen2moe", "Qwen2MoeForCausalLM"}, {"qwen3moe", "Qwen3MoeForCausalLM"},
    {"olmoe", "OlmoeForCausalLM"}};

void SetExperts(const TinyCase& tiny, json& config) {
  if (!tiny.Has("experts"))
    return;
  const std::string arch = tiny.Text("arch");
  config[arch == "mixtral" ? "num_local_experts" : "num_experts"] = tiny.Int("experts");
  config["num_experts_per_tok"] = tiny.Int("used");
  if (arch == "qwen2moe" || arch == "qwen3moe")
    config["moe_intermediate_size"] = tiny.Int("expert_ffn");
  if (tiny.Has("shared_ffn"))
    config["shared_expert_intermediate_size"] = tiny.Int("shared_ffn");
  if (tiny.Has("normalized"))
    config["norm_topk_prob"] = tiny.Int("normalized") != 0;
}

// What the file has of transformers 5, or the same as transformers 4 would have written it.
json ListedConfig(const TinyCase& tiny, TinyDirectoryOptions::Transformers version) {
  json config = json::parse(tiny.config);
  if (version == TinyDirectoryOptions::Transformers::k5)
    return config;
  json rope = config["rope_parameters"];
  config.erase("rope_parameters");
  config["rope_theta"] = rope["rope_theta"];
  rope.erase("rope_theta");
  config["rope_scaling"] = rope["rope_type"] == "default" ? json() : rope;
  return config;
}

json ConfigOf(const TinyCase& tiny, TinyDirectoryOptions::Transformers version) {
  if (!tiny.config.empty())
    return ListedConfig(tiny, version);
  const std::string arch = tiny.Text("arch");
  if (IsTinyPlain(arch) || IsTinyDeepseek(arch))
    return TinyFamilyConfig(tiny);
  const bool mistral = arch == "llama" && tiny.Has("window");
  json config = {{"architectures", {mistral ? "MistralForCausalLM" : kArchitectures.at(arch)}}};
  const std::pair<const char*, const char*> sizes[] = {
      {"vocab_size", "vocab"},          {"hidden_size", "hidden"},
      {"intermediate_size", "ffn"},     {"num_hidden_layers", "layers"},
      {"num_attention_heads", "heads"}, {"num_key_value_heads", "kv_heads"},
      {"head_dim", "head_dim"},         {"max_position_embeddings", "context"}};
  for (const auto& [key, setting] : sizes)
    config[key] = tiny.Int(setting);
  const std::pair<const char*, const char*> numbers[] = {
      {"rms_norm_eps", "eps"},
      {"query_pre_attn_scalar", "width"},
      {"attn_logit_softcapping", "attention_cap"},
      {"final_logit_softcapping", "final_cap"},
      {"embedding_multiplier", "embedding_multiplier"},
      {"residual_multiplier", "residual_multiplier"},
      {"attention_multiplier", "attention_multiplier"},
      {"logits_scaling", "logits_scaling"}};
  for (const auto& [key, setting] : numbers) {
    if (tiny.Has(setting))
      config[key] = tiny.Float(setting);
  }
  SetExperts(tiny, config);
  config["tie_word_embeddings"] = tiny.Int("tied") != 0;
  if (tiny.Has("linear_bias"))
    config["attention_bias"] = config["mlp_bias"] = true;
  SetWindow(tiny, version, config);
  if (version == TinyDirectoryOptions::Transformers::k4)
    SetRope4(tiny, config);
  else
    SetRope5(tiny, config);
  return config;
}

void WriteText(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

RawTensor ToRaw(const TinyCase& tiny, const TinyTensor& tensor) {
  return {HfName(tensor.name, tiny), "F32", tensor.shape, ValuesAs("F32", tensor.values)};
}

std::string SafetensorsBytes(const std::vector<RawTensor>& tensors) {
  json header = json::object();
  std::string data;
  for (const RawTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  const std::string text = header.dump();
  std::string file;
  PutValue<uint64_t>(file, text.size());
  return file + text + data;
}

std::string TinyTokenizerJson(int64_t size) {
  json vocabulary;
  for (int64_t id = 0; id < size; ++id)
    vocabulary[std::string(1, static_cast<char>('!' + id % 90)) + std::string(id / 90, '!')] = id;
  return json{{"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}}}
      .dump();
}

void WriteTinyDirectory(const TinyCase& tiny, const TinyDirectoryOptions& options,
                        const std::filesystem::path& directory) {
  WriteText(directory / "config.json", ConfigOf(tiny, options.version).dump(2));
  WriteText(directory / "tokenizer.json", TinyTokenizerJson(tiny.Int("vocab")));
  const std::vector<RawTensor> tensors = RawTensors(tiny, options);
  if (options.shards == 1)
    return WriteText(directory / "model.safetensors", SafetensorsBytes(tensors));
  json map;
  std::vector<std::vector<RawTensor>> shards(static_cast<size_t>(options.shards));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const size_t shard = i * shards.size() / tensors.size();
    shards[shard].push_back(tensors[i]);
    map[tensors[i].name] =
        fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards.size());
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    WriteText(directory / fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size()),
              SafetensorsBytes(shards[i]));
  }
  WriteText(directory / "model.safetensors.index.json",
            json{{"metadata", {{"total_size", 0}}}, {"weight_map", map}}.dump());
}

}  // namespace tenon::testing
