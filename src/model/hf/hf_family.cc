#include "model/hf/hf_family.h"

#include <array>

namespace tenon {
namespace {

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
// Query, key and value in one matrix, gate and up in another; GGUF calls that one ffn_up too.
constexpr HfName kPhi3Names[] = {
    {"self_attn.qkv_proj", "attn_qkv"}, {"self_attn.o_proj", "attn_output"},
    {"mlp.gate_up_proj", "ffn_up"},     {"mlp.down_proj", "ffn_down"},
    {"input_layernorm", "attn_norm"},   {"post_attention_layernorm", "ffn_norm"},
};

constexpr std::array<HfFamily, 12> kFamilies = {{
    {.architecture = "LlamaForCausalLM", .name = "llama", .layer_names = kLlamaNames},
    {.architecture = "MistralForCausalLM",
     .name = "llama",
     .layer_names = kLlamaNames,
     .window = HfWindow::kEveryLayer},
    {.architecture = "Qwen2ForCausalLM",
     .name = "qwen2",
     .layer_names = kLlamaNames,
     .qkv_bias = true,
     .window = HfWindow::kLastLayers},
    {.architecture = "Qwen3ForCausalLM",
     .name = "qwen3",
     .layer_names = kLlamaNames,
     .window = HfWindow::kLastLayers},
    {.architecture = "Gemma2ForCausalLM",
     .name = "gemma2",
     .layer_names = kGemmaNames,
     .activation = "gelu_pytorch_tanh",
     .tied_by_default = true,
     .norms_from_one = true,
     .window = HfWindow::kPattern,
     .window_pattern = 2},
    {.architecture = "Gemma3ForCausalLM",
     .name = "gemma3",
     .layer_names = kGemmaNames,
     .activation = "gelu_pytorch_tanh",
     .rope_base = 1000000.0F,
     .tied_by_default = true,
     .norms_from_one = true,
     .window = HfWindow::kPattern,
     .window_pattern = 6},
    {.architecture = "Phi3ForCausalLM",
     .name = "phi3",
     .layer_names = kPhi3Names,
     .window = HfWindow::kEveryLayer},
    {.architecture = "GraniteForCausalLM", .name = "granite", .layer_names = kLlamaNames},
    {.architecture = "MixtralForCausalLM",
     .name = "mixtral",
     .layer_names = kLlamaNames,
     .expert_prefix = "block_sparse_moe.experts.",
     .expert_names = kMixtralExperts,
     .rope_base = 1000000.0F,
     .window = HfWindow::kEveryLayer},
    {.architecture = "Qwen2MoeForCausalLM",
     .name = "qwen2moe",
     .layer_names = kLlamaNames,
     .expert_prefix = "mlp.experts.",
     .expert_names = kExperts,
     .qkv_bias = true,
     .window = HfWindow::kLastLayers},
    {.architecture = "Qwen3MoeForCausalLM",
     .name = "qwen3moe",
     .layer_names = kLlamaNames,
     .expert_prefix = "mlp.experts.",
     .expert_names = kExperts,
     .window = HfWindow::kEveryLayerIfUsed},
    {.architecture = "OlmoeForCausalLM",
     .name = "olmoe",
     .layer_names = kLlamaNames,
     .expert_prefix = "mlp.experts.",
     .expert_names = kExperts},
}};

}  // namespace

const HfFamily* FindHfFamily(std::string_view architecture) {
  for (const HfFamily& family : kFamilies) {
    if (family.architecture == architecture)
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
