#include "tiny_families.h"

#include <fmt/format.h>

#include <map>

namespace tenon::testing {
namespace {

using nlohmann::json;

// The beginning of a family's names, and what stands before a layer's number.
struct FamilyPrefix {
  std::string model;
  std::string layers;
};
const std::map<std::string, FamilyPrefix> kPrefixes = {
    {"gpt2", {"transformer.", "h."}},       {"gptneox", {"gpt_neox.", "layers."}},
    {"opt", {"model.decoder.", "layers."}}, {"bert", {"", "encoder.layer."}},
    {"deepseek", {"model.", "layers."}},
};

// GGUF's stems and transformers' of one family, outside of layers and in them.
using Names = std::map<std::string, std::string>;
const std::map<std::string, Names> kNames = {
    {"gpt2",
     {{"token_embd", "wte"},
      {"position_embd", "wpe"},
      {"output_norm", "ln_f"},
      {"attn_norm", "ln_1"},
      {"attn_qkv", "attn.c_attn"},
      {"attn_output", "attn.c_proj"},
      {"ffn_norm", "ln_2"},
      {"ffn_up", "mlp.c_fc"},
      {"ffn_down", "mlp.c_proj"}}},
    {"gptneox",
     {{"token_embd", "embed_in"},
      {"output_norm", "final_layer_norm"},
      {"attn_norm", "input_layernorm"},
      {"attn_qkv", "attention.query_key_value"},
      {"attn_output", "attention.dense"},
      {"ffn_norm", "post_attention_layernorm"},
      {"ffn_up", "mlp.dense_h_to_4h"},
      {"ffn_down", "mlp.dense_4h_to_h"}}},
    {"opt",
     {{"token_embd", "embed_tokens"},
      {"position_embd", "embed_positions"},
      {"output_norm", "final_layer_norm"},
      {"attn_norm", "self_attn_layer_norm"},
      {"attn_q", "self_attn.q_proj"},
      {"attn_k", "self_attn.k_proj"},
      {"attn_v", "self_attn.v_proj"},
      {"attn_output", "self_attn.out_proj"},
      {"ffn_norm", "final_layer_norm"},
      {"ffn_up", "fc1"},
      {"ffn_down", "fc2"}}},
    {"bert",
     {{"token_embd", "embeddings.word_embeddings"},
      {"position_embd", "embeddings.position_embeddings"},
      {"token_types", "embeddings.token_type_embeddings"},
      {"token_embd_norm", "embeddings.LayerNorm"},
      {"attn_q", "attention.self.query"},
      {"attn_k", "attention.self.key"},
      {"attn_v", "attention.self.value"},
      {"attn_output", "attention.output.dense"},
      {"attn_output_norm", "attention.output.LayerNorm"},
      {"ffn_up", "intermediate.dense"},
      {"ffn_down", "output.dense"},
      {"layer_output_norm", "output.LayerNorm"}}},
    {"deepseek",
     {{"token_embd", "embed_tokens"},
      {"output_norm", "norm"},
      {"attn_norm", "input_layernorm"},
      {"ffn_norm", "post_attention_layernorm"},
      {"attn_q", "self_attn.q_proj"},
      {"attn_q_a", "self_attn.q_a_proj"},
      {"attn_q_a_norm", "self_attn.q_a_layernorm"},
      {"attn_q_b", "self_attn.q_b_proj"},
      {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
      {"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
      {"attn_kv_b", "self_attn.kv_b_proj"},
      {"attn_output", "self_attn.o_proj"},
      {"ffn_gate", "mlp.gate_proj"},
      {"ffn_up", "mlp.up_proj"},
      {"ffn_down", "mlp.down_proj"},
      {"ffn_gate_inp", "mlp.gate"},
      {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
      {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
      {"ffn_down_shexp", "mlp.shared_experts.down_proj"}}},
};

class List {
 public:
  explicit List(const TinyCase& tiny) : tiny_(tiny) {}

  void Add(const std::string& name, std::vector<int64_t> shape, float offset = 0.0F) {
    int64_t count = 1;
    for (const int64_t extent : shape)
      count *= extent;
    tensors.push_back({name, std::move(shape), MadeValues(name, count, offset)});
  }
  void Norm(const std::string& name, int64_t size) { Add(name + ".weight", {size}, 1.0F); }
  void LayerNorm(const std::string& name) {
    Norm(name, Int("hidden"));
    Add(name + ".bias", {Int("hidden")});
  }
  void Biased(const std::string& name, int64_t rows, int64_t columns) {
    Add(name + ".weight", {rows, columns});
    Add(name + ".bias", {rows});
  }
  int64_t Int(const std::string& key) const { return tiny_.Int(key); }

  std::vector<TinyTensor> tensors;

 private:
  const TinyCase& tiny_;
};

void PlainBlock(List& list, const std::string& block, const std::string& arch) {
  const int64_t hidden = list.Int("hidden");
  if (arch != "bert")
    list.LayerNorm(block + "attn_norm");
  if (arch == "gpt2" || arch == "gptneox") {
    list.Biased(block + "attn_qkv", 3 * hidden, hidden);
  } else {
    for (const char* name : {"attn_q", "attn_k", "attn_v"})
      list.Biased(block + name, hidden, hidden);
  }
  list.Biased(block + "attn_output", hidden, hidden);
  list.LayerNorm(block + (arch == "bert" ? "attn_output_norm" : "ffn_norm"));
  list.Biased(block + "ffn_up", list.Int("ffn"), hidden);
  list.Biased(block + "ffn_down", hidden, list.Int("ffn"));
  if (arch == "bert")
    list.LayerNorm(block + "layer_output_norm");
}

void LatentAttention(List& list, const TinyCase& tiny, const std::string& block) {
  const int64_t hidden = list.Int("hidden");
  const int64_t heads = list.Int("heads");
  const int64_t key = list.Int("plain_dim") + list.Int("rotary_dim");
  if (tiny.Has("query_rank")) {
    list.Add(block + "attn_q_a.weight", {list.Int("query_rank"), hidden});
    list.Norm(block + "attn_q_a_norm", list.Int("query_rank"));
    list.Add(block + "attn_q_b.weight", {heads * key, list.Int("query_rank")});
  } else {
    list.Add(block + "attn_q.weight", {heads * key, hidden});
  }
  const int64_t rank = list.Int("kv_rank");
  list.Add(block + "attn_kv_a_mqa.weight", {rank + list.Int("rotary_dim"), hidden});
  list.Norm(block + "attn_kv_a_norm", rank);
  list.Add(block + "attn_kv_b.weight",
           {heads * (list.Int("plain_dim") + list.Int("value_dim")), rank});
  list.Add(block + "attn_output.weight", {hidden, heads * list.Int("value_dim")});
}

void Gated(List& list, const std::string& block, const std::string& suffix, int64_t ffn) {
  const int64_t hidden = list.Int("hidden");
  list.Add(block + "ffn_gate" + suffix + ".weight", {ffn, hidden});
  list.Add(block + "ffn_up" + suffix + ".weight", {ffn, hidden});
  list.Add(block + "ffn_down" + suffix + ".weight", {hidden, ffn});
}

void DeepseekExperts(List& list, const TinyCase& tiny, const std::string& block) {
  const int64_t hidden = list.Int("hidden");
  const int64_t experts = list.Int("experts");
  const int64_t ffn = list.Int("expert_ffn");
  list.Add(block + "ffn_gate_inp.weight", {experts, hidden});
  if (tiny.Text("arch") == "deepseek3")
    list.Add(block + "exp_probs_b.bias", {experts});
  list.Add(block + "ffn_gate_exps.weight", {experts, ffn, hidden});
  list.Add(block + "ffn_up_exps.weight", {experts, ffn, hidden});
  list.Add(block + "ffn_down_exps.weight", {experts, hidden, ffn});
  Gated(list, block, "_shexp", list.Int("shared") * ffn);
}

std::string ExpertName(const std::string& part) {
  const size_t dot = part.find('.');
  return fmt::format("mlp.experts.{}.{}_proj", part.substr(dot + 1), part.substr(4, dot - 4));
}

void SetYarn(const TinyCase& tiny, json& config) {
  json rope = {{"rope_type", tiny.Has("rope") ? tiny.Text("rope") : "default"},
               {"rope_theta", tiny.Float("theta")}};
  const std::pair<const char*, const char*> numbers[] = {
      {"factor", "factor"},       {"original_max_position_embeddings", "original"},
      {"beta_fast", "beta_fast"}, {"beta_slow", "beta_slow"},
      {"mscale", "mscale"},       {"mscale_all_dim", "mscale_all_dim"}};
  for (const auto& [key, setting] : numbers) {
    if (tiny.Has(setting))
      rope[key] = tiny.Float(setting);
  }
  if (tiny.Has("original"))
    rope["original_max_position_embeddings"] = tiny.Int("original");
  config["rope_parameters"] = rope;
}

json DeepseekConfig(const TinyCase& tiny) {
  const bool v3 = tiny.Text("arch") == "deepseek3";
  json config = {{"architectures", {v3 ? "DeepseekV3ForCausalLM" : "DeepseekV2ForCausalLM"}},
                 {"rms_norm_eps", tiny.Float("eps")},
                 {"head_dim", tiny.Int("rotary_dim")},
                 {"routed_scaling_factor", tiny.Float("scale")}};
  const std::pair<const char*, const char*> sizes[] = {{"q_lora_rank", "query_rank"},
                                                       {"kv_lora_rank", "kv_rank"},
                                                       {"qk_nope_head_dim", "plain_dim"},
                                                       {"qk_rope_head_dim", "rotary_dim"},
                                                       {"v_head_dim", "value_dim"},
                                                       {"n_routed_experts", "experts"},
                                                       {"num_experts_per_tok", "used"},
                                                       {"moe_intermediate_size", "expert_ffn"},
                                                       {"n_shared_experts", "shared"},
                                                       {"first_k_dense_replace", "dense"},
                                                       {"n_group", "groups"},
                                                       {"topk_group", "used_groups"}};
  for (const auto& [key, setting] : sizes) {
    if (tiny.Has(setting))
      config[key] = tiny.Int(setting);
  }
  if (!v3)
    config["topk_method"] = tiny.Has("groups") ? "group_limited_greedy" : "greedy";
  SetYarn(tiny, config);
  return config;
}

json PlainConfig(const TinyCase& tiny) {
  const std::string arch = tiny.Text("arch");
  if (arch == "gpt2") {
    return {{"architectures", {"GPT2LMHeadModel"}}, {"n_embd", tiny.Int("hidden")},
            {"n_inner", tiny.Int("ffn")},           {"n_layer", tiny.Int("layers")},
            {"n_head", tiny.Int("heads")},          {"n_positions", tiny.Int("context")},
            {"activation_function", "gelu_new"},    {"layer_norm_epsilon", tiny.Float("eps")}};
  }
  if (arch == "opt") {
    return {{"architectures", {"OPTForCausalLM"}},
            {"ffn_dim", tiny.Int("ffn")},
            {"activation_function", "relu"},
            {"word_embed_proj_dim", tiny.Int("hidden")}};
  }
  if (arch == "bert") {
    return {{"architectures", {"BertModel"}},
            {"hidden_act", "gelu"},
            {"layer_norm_eps", tiny.Float("eps")}};
  }
  return {{"architectures", {"GPTNeoXForCausalLM"}},
          {"hidden_act", "gelu"},
          {"layer_norm_eps", tiny.Float("eps")},
          {"use_parallel_residual", tiny.Int("parallel") != 0},
          {"rotary_emb_base", tiny.Float("theta")},
          {"rotary_pct", tiny.Float("partial")}};
}

}  // namespace

bool IsTinyPlain(const std::string& arch) {
  return arch == "gpt2" || arch == "gptneox" || arch == "opt" || arch == "bert";
}

bool IsTinyDeepseek(const std::string& arch) {
  return arch == "deepseek2" || arch == "deepseek3";
}

std::vector<TinyTensor> TinyPlainTensors(const TinyCase& tiny) {
  const std::string arch = tiny.Text("arch");
  List list(tiny);
  const int64_t hidden = tiny.Int("hidden");
  list.Add("token_embd.weight", {tiny.Int("vocab"), hidden});
  if (arch != "gptneox")
    list.Add("position_embd.weight", {tiny.Int("context") + (arch == "opt" ? 2 : 0), hidden});
  if (arch == "bert") {
    list.Add("token_types.weight", {2, hidden});
    list.LayerNorm("token_embd_norm");
  }
  for (int64_t layer = 0; layer < tiny.Int("layers"); ++layer)
    PlainBlock(list, fmt::format("blk.{}.", layer), arch);
  if (arch != "bert")
    list.LayerNorm("output_norm");
  if (tiny.Int("tied") == 0)
    list.Add("output.weight", {tiny.Int("vocab"), hidden});
  return list.tensors;
}

std::vector<TinyTensor> TinyDeepseekTensors(const TinyCase& tiny) {
  List list(tiny);
  const int64_t hidden = tiny.Int("hidden");
  list.Add("token_embd.weight", {tiny.Int("vocab"), hidden});
  for (int64_t layer = 0; layer < tiny.Int("layers"); ++layer) {
    const std::string block = fmt::format("blk.{}.", layer);
    list.Norm(block + "attn_norm", hidden);
    LatentAttention(list, tiny, block);
    list.Norm(block + "ffn_norm", hidden);
    if (layer < tiny.Int("dense"))
      Gated(list, block, "", tiny.Int("ffn"));
    else
      DeepseekExperts(list, tiny, block);
  }
  list.Norm("output_norm", hidden);
  list.Add("output.weight", {tiny.Int("vocab"), hidden});
  return list.tensors;
}

void ToHfLayout(const TinyCase& tiny, TinyTensor& tensor) {
  const std::string arch = tiny.Text("arch");
  const std::vector<float> values = tensor.values;
  if (arch == "gpt2" && tensor.name.starts_with("blk.") && tensor.shape.size() == 2) {
    const auto rows = static_cast<size_t>(tensor.shape[0]);
    const auto columns = static_cast<size_t>(tensor.shape[1]);
    for (size_t i = 0; i < values.size(); ++i)
      tensor.values[i % columns * rows + i / columns] = values[i];
    std::swap(tensor.shape[0], tensor.shape[1]);
  }
  if (arch != "gptneox" || tensor.name.find("attn_qkv") == std::string::npos)
    return;
  const auto heads = static_cast<size_t>(tiny.Int("heads"));
  const size_t piece = values.size() / heads / 3;
  for (size_t part = 0; part < 3; ++part) {
    for (size_t head = 0; head < heads; ++head) {
      std::copy_n(&values[(part * heads + head) * piece], piece,
                  &tensor.values[(head * 3 + part) * piece]);
    }
  }
}

std::string TinyFamilyHfName(const std::string& gguf, const std::string& arch) {
  const std::string family = IsTinyDeepseek(arch) ? "deepseek" : arch;
  const Names& names = kNames.at(family);
  const FamilyPrefix& prefix = kPrefixes.at(family);
  const size_t dot = gguf.rfind('.');
  const std::string stem = gguf.substr(0, dot);
  const std::string kind = gguf.substr(dot);
  if (stem == "output")
    return (arch == "gptneox" ? "embed_out" : "lm_head") + kind;
  if (!stem.starts_with("blk."))
    return prefix.model + names.at(stem) + kind;
  const size_t layer_end = stem.find('.', 4);
  const std::string layer = prefix.model + prefix.layers + stem.substr(4, layer_end - 4) + ".";
  const std::string part = stem.substr(layer_end + 1);
  if (part == "exp_probs_b")
    return layer + "mlp.gate.e_score_correction_bias";
  return layer + (part.find('.') == std::string::npos ? names.at(part) : ExpertName(part)) + kind;
}

json TinyFamilyConfig(const TinyCase& tiny) {
  json config = IsTinyDeepseek(tiny.Text("arch")) ? DeepseekConfig(tiny) : PlainConfig(tiny);
  config["vocab_size"] = tiny.Int("vocab");
  config["tie_word_embeddings"] = tiny.Int("tied") != 0;
  if (tiny.Text("arch") == "gpt2")
    return config;
  config["hidden_size"] = tiny.Int("hidden");
  config["num_hidden_layers"] = tiny.Int("layers");
  config["num_attention_heads"] = tiny.Int("heads");
  config["max_position_embeddings"] = tiny.Int("context");
  if (tiny.Text("arch") != "opt")
    config["intermediate_size"] = tiny.Int("ffn");
  return config;
}

}  // namespace tenon::testing
