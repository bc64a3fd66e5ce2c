#include "model/hf/hf_family.h"

#include <array>

namespace tenon {
namespace {

constexpr HfName kTopNames[] = {
    {"embed_tokens", "token_embd"}, {"norm", "output_norm"}, {"lm_head", "output"}};
constexpr HfName kLlamaNames[] = {
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
};
constexpr HfName kMixtralExperts[] = {{"w1", "ffn_gate"}, {"w3", "ffn_up"}, {"w2", "ffn_down"}};
constexpr HfName kExperts[] = {
    {"gate_proj", "ffn_gate"}, {"up_proj", "ffn_up"}, {"down_proj", "ffn_down"}};
constexpr HfName kDeepseekNames[] = {
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.q_a_proj", "attn_q_a"},
    {"self_attn.q_a_layernorm", "attn_q_a_norm"},
    {"self_attn.q_b_proj", "attn_q_b"},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
    {"self_attn.kv_b_proj", "attn_kv_b"},
    {"self_attn.o_proj", "attn_output"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "ffn_norm"},
};
// Norms before and after each sublayer; the same name means another place than in Llama.
constexpr HfName kGemmaNames[] = {
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
};
// No norm before a sublayer, one after it.
constexpr HfName kOlmo2Names[] = {
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"post_attention_layernorm", "post_attention_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
};
// Query, key and value in one matrix, gate and up in another; GGUF calls that one ffn_up too.
constexpr HfName kPhi3Names[] = {
    {"self_attn.qkv_proj", "attn_qkv"}, {"self_attn.o_proj", "attn_output"},
    {"mlp.gate_up_proj", "ffn_up"},     {"mlp.down_proj", "ffn_down"},
    {"input_layernorm", "attn_norm"},   {"post_attention_layernorm", "ffn_norm"},
};
constexpr HfName kGpt2Top[] = {{"wte", "token_embd"},
                               {"wpe", "position_embd"},
                               {"ln_f", "output_norm"},
                               {"lm_head", "output"}};
constexpr HfName kGpt2Names[] = {
    {"ln_1", "attn_norm"}, {"attn.c_attn", "attn_qkv"}, {"attn.c_proj", "attn_output"},
    {"ln_2", "ffn_norm"},  {"mlp.c_fc", "ffn_up"},      {"mlp.c_proj", "ffn_down"},
};
// Masks that old checkpoints hold.
constexpr std::string_view kGpt2Ignored[] = {"attn.bias", "attn.masked_bias"};
constexpr HfName kNeoxTop[] = {{"embed_in", "token_embd"},
                               {"final_layer_norm", "output_norm"},
                               {"embed_out", "output"},
                               {"lm_head", "output"}};
constexpr HfName kNeoxNames[] = {
    {"attention.query_key_value", "attn_qkv"}, {"attention.dense", "attn_output"},
    {"mlp.dense_h_to_4h", "ffn_up"},           {"mlp.dense_4h_to_h", "ffn_down"},
    {"input_layernorm", "attn_norm"},          {"post_attention_layernorm", "ffn_norm"},
};
constexpr std::string_view kNeoxIgnored[] = {"attention.bias", "attention.masked_bias",
                                             "attention.rotary_emb.inv_freq"};
constexpr HfName kOptTop[] = {{"embed_tokens", "token_embd"},
                              {"embed_positions", "position_embd"},
                              {"final_layer_norm", "output_norm"},
                              {"lm_head", "output"}};
constexpr HfName kOptNames[] = {
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.out_proj", "attn_output"},
    {"self_attn_layer_norm", "attn_norm"},
    {"final_layer_norm", "ffn_norm"},
    {"fc1", "ffn_up"},
    {"fc2", "ffn_down"},
};
constexpr HfName kBertTop[] = {{"embeddings.word_embeddings", "token_embd"},
                               {"embeddings.position_embeddings", "position_embd"},
                               {"embeddings.token_type_embeddings", "token_types"},
                               {"embeddings.LayerNorm", "token_embd_norm"}};
constexpr HfName kBertNames[] = {
    {"attention.self.query", "attn_q"},
    {"attention.self.key", "attn_k"},
    {"attention.self.value", "attn_v"},
    {"attention.output.dense", "attn_output"},
    {"attention.output.LayerNorm", "attn_output_norm"},
    {"intermediate.dense", "ffn_up"},
    {"output.dense", "ffn_down"},
    {"output.LayerNorm", "layer_output_norm"},
};
// The pooler is for classifiers: embeddings are made of the hidden states.
constexpr std::string_view kBertIgnored[] = {"embeddings.position_ids", "pooler.dense.weight",
                                             "pooler.dense.bias"};

constexpr HfFamily Llama(std::string_view architecture, std::string_view name) {
  HfFamily family;
  family.architecture = architecture;
  family.name = family.model_type = name;
  family.layer_names = kLlamaNames;
  family.top_names = kTopNames;
  return family;
}

constexpr HfFamily Mistral() {
  HfFamily family = Llama("MistralForCausalLM", "llama");
  family.model_type = "mistral";
  family.window = HfWindow::kEveryLayer;
  return family;
}

constexpr HfFamily Qwen2() {
  HfFamily family = Llama("Qwen2ForCausalLM", "qwen2");
  family.qkv_bias = true;
  family.window = HfWindow::kLastLayers;
  return family;
}

constexpr HfFamily Qwen3() {
  HfFamily family = Llama("Qwen3ForCausalLM", "qwen3");
  family.window = HfWindow::kLastLayers;
  return family;
}

constexpr HfFamily SmolLm3() {
  HfFamily family = Llama("SmolLM3ForCausalLM", "smollm3");
  family.rope_base = 2000000.0F;
  family.rope_free_every = 4;
  family.tied_by_default = true;
  family.window = HfWindow::kRopeFreeLayers;
  return family;
}

constexpr HfFamily Gemma(std::string_view architecture, std::string_view name, int64_t pattern,
                         float rope_base) {
  HfFamily family = Llama(architecture, name);
  family.layer_names = kGemmaNames;
  family.activation = Activation::kGelu;
  family.rope_base = rope_base;
  family.tied_by_default = true;
  family.norms_from_one = true;
  family.window = HfWindow::kPattern;
  family.window_pattern = pattern;
  return family;
}

constexpr HfFamily Olmo2() {
  HfFamily family = Llama("Olmo2ForCausalLM", "olmo2");
  family.layer_names = kOlmo2Names;
  return family;
}

constexpr HfFamily Gemma3() {
  HfFamily family = Gemma("Gemma3ForCausalLM", "gemma3", 6, 1000000.0F);
  family.model_type = "gemma3_text";
  return family;
}

constexpr HfFamily Phi3() {
  HfFamily family = Llama("Phi3ForCausalLM", "phi3");
  family.layer_names = kPhi3Names;
  family.matrices = HfMatrices::kFusedPhi3;
  family.window = HfWindow::kEveryLayer;
  return family;
}

constexpr HfFamily Mixtral() {
  HfFamily family = Llama("MixtralForCausalLM", "mixtral");
  family.expert_prefix = "block_sparse_moe.experts.";
  family.expert_names = kMixtralExperts;
  family.rope_base = 1000000.0F;
  family.window = HfWindow::kEveryLayer;
  return family;
}

constexpr HfFamily Experts(std::string_view architecture, std::string_view name) {
  HfFamily family = Llama(architecture, name);
  family.expert_prefix = "mlp.experts.";
  family.expert_names = kExperts;
  return family;
}

constexpr HfFamily Qwen2Moe() {
  HfFamily family = Experts("Qwen2MoeForCausalLM", "qwen2moe");
  family.model_type = "qwen2_moe";
  family.qkv_bias = true;
  family.window = HfWindow::kLastLayers;
  return family;
}

constexpr HfFamily Qwen3Moe() {
  HfFamily family = Experts("Qwen3MoeForCausalLM", "qwen3moe");
  family.model_type = "qwen3_moe";
  family.window = HfWindow::kEveryLayerIfUsed;
  return family;
}

constexpr HfFamily Deepseek(std::string_view architecture) {
  HfFamily family = Experts(architecture, "deepseek2");
  family.model_type = {};
  family.layer_names = kDeepseekNames;
  return family;
}

// What the families with layer norms, biases and a plain feed-forward network have in common.
constexpr HfFamily Plain(std::string_view architecture, std::string_view name) {
  HfFamily family;
  family.architecture = architecture;
  family.name = name;
  family.any_activation = true;
  family.all_biases = true;
  family.eps_key = "layer_norm_eps";
  family.rotary_share = 0.0F;
  return family;
}

constexpr HfFamily Gpt2() {
  HfFamily family = Plain("GPT2LMHeadModel", "gpt2");
  family.model_type = "gpt2";
  family.top_names = kGpt2Top;
  family.layer_names = kGpt2Names;
  family.root = "transformer.";
  family.layer_prefix = "h.";
  family.ignored = kGpt2Ignored;
  family.sizes = {"n_embd", "n_inner", "n_layer", "n_head", "n_positions"};
  family.eps_key = "layer_norm_epsilon";
  family.activation_key = "activation_function";
  family.activation = Activation::kGelu;
  family.tied_by_default = true;
  family.matrices = HfMatrices::kFusedGpt2;
  return family;
}

constexpr HfFamily GptNeox() {
  HfFamily family = Plain("GPTNeoXForCausalLM", "gptneox");
  family.model_type = "gpt_neox";
  family.top_names = kNeoxTop;
  family.layer_names = kNeoxNames;
  family.root = "gpt_neox.";
  family.ignored = kNeoxIgnored;
  family.activation = Activation::kGeluErf;
  family.rotary_share = 0.25F;
  family.matrices = HfMatrices::kFusedHeads;
  return family;
}

constexpr HfFamily Opt() {
  HfFamily family = Plain("OPTForCausalLM", "opt");
  family.top_names = kOptTop;
  family.layer_names = kOptNames;
  family.root = "model.decoder.";
  family.sizes.ffn = "ffn_dim";
  family.eps_key = {};
  family.activation_key = "activation_function";
  family.activation = Activation::kRelu;
  family.tied_by_default = true;
  return family;
}

constexpr HfFamily Bert() {
  HfFamily family = Plain("BertModel", "bert");
  family.top_names = kBertTop;
  family.layer_names = kBertNames;
  family.root = "bert.";
  family.layer_prefix = "encoder.layer.";
  family.ignored = kBertIgnored;
  family.activation = Activation::kGeluErf;
  family.tied_by_default = true;
  return family;
}

constexpr std::array kFamilies = {
    Llama("LlamaForCausalLM", "llama"),
    Mistral(),
    Qwen2(),
    Qwen3(),
    Gemma("Gemma2ForCausalLM", "gemma2", 2, 10000.0F),
    Gemma3(),
    Phi3(),
    Llama("GraniteForCausalLM", "granite"),
    Mixtral(),
    Qwen2Moe(),
    Qwen3Moe(),
    Experts("OlmoeForCausalLM", "olmoe"),
    Olmo2(),
    SmolLm3(),
    Deepseek("DeepseekV2ForCausalLM"),
    Deepseek("DeepseekV3ForCausalLM"),
    Gpt2(),
    GptNeox(),
    Opt(),
    Bert(),
};

}  // namespace

const HfFamily* FindHfFamily(std::string_view architecture) {
  for (const HfFamily& family : kFamilies) {
    if (family.architecture == architecture)
      return &family;
  }
  return nullptr;
}

const HfFamily* FindHfFamilyNamed(std::string_view name) {
  for (const HfFamily& family : kFamilies) {
    if (family.name == name)
      return &family;
  }
  return nullptr;
}

std::string HfFamilyNames() {
  std::string names;
  for (const HfFamily& family : kFamilies)
    names.append(names.empty() ? "" : ", ").append(family.architecture);
  return names;
}

}  // namespace tenon
