#!/usr/bin/env python3
"""Writes reference logits of tiny models, one for each architecture and each rule of rotary scaling:
transformers in fp32 on weights that are made from their names, so that no weights are stored.

    make_arch_golden.py > tests/data/arch_golden.txt              all
    make_arch_golden.py CASE... >> tests/data/arch_golden.txt     new ones

Needs numpy, torch 2.15.0 and transformers 5.24.0. tests/arch/tiny_model.h makes the same weights and
reads the same hyperparameters from the file's "set" lines. All "position" lines of a case are rows of
logits after one forward pass over its tokens.

A case with a "class" says all that tests need: transformers' <class>Config and <class>ForCausalLM, "config"
for fields of the one that others lack, "names" for modules of a layer that NAMES has not or has for another
place, "pairs" for GGUF files that rotate neighbours. The file then has its tensors' names and shapes and its
config.json, from transformers. That does for matrices as GGUF has them; fused ones and experts need code.
"""
import json
import re
import sys

import numpy as np
import torch
import transformers as hf

TOKENS = 48
VOCABULARY = 100
POSITIONS = (0, 1, 15, 16, 17, 31, 40, 47)  # around the edge of a window of 16, and later ones
LLAMA = {"arch": "llama", "hidden": 64, "layers": 2, "heads": 4, "kv_heads": 2, "head_dim": 16,
         "ffn": 96, "eps": 1e-5, "theta": 10000.0, "tied": 0, "context": 512}
GEMMA = LLAMA | {"arch": "gemma3", "hidden": 96, "layers": 7, "head_dim": 32, "eps": 1e-6, "tied": 1,
                 "theta": 1000000.0, "local_theta": 10000.0, "window": 16}
PHI3 = LLAMA | {"arch": "phi3", "head_dim": 32, "hidden": 128, "partial": 0.5}
EXPERTS = LLAMA | {"experts": 8, "used": 2, "expert_ffn": 32}
PLAIN = {"hidden": 64, "layers": 2, "heads": 4, "kv_heads": 4, "head_dim": 16, "ffn": 96, "eps": 1e-5, "tied": 1, "context": 64}
LATENT = {"hidden": 64, "layers": 3, "heads": 4, "query_rank": 24, "kv_rank": 32, "plain_dim": 16, "rotary_dim": 8,
          "value_dim": 16, "ffn": 96, "eps": 1e-6, "theta": 10000.0, "tied": 0, "context": 512, "experts": 8, "used": 3,
          "expert_ffn": 32, "shared": 2, "dense": 1}
# "width": heads are scaled by 1/sqrt(width). 62 layers are Gemma 3 27B's, which scales by hidden/heads.
CASES = {
    "llama": LLAMA,
    "llama_bias_tied": LLAMA | {"head_dim": 32, "tied": 1, "theta": 500000.0, "linear_bias": 1},
    "mistral_window": LLAMA | {"window": 16, "layers": 3},
    "llama_linear": LLAMA | {"rope": "linear", "factor": 4.0},
    "llama_llama3": LLAMA | {"head_dim": 32, "rope": "llama3", "factor": 8.0, "original": 64,
                             "low": 1.0, "high": 4.0},
    "llama_yarn": LLAMA | {"head_dim": 32, "rope": "yarn", "factor": 4.0, "original": 256,
                           "context": 1024, "beta_fast": 8.0, "beta_slow": 2.0},
    "qwen2": LLAMA | {"arch": "qwen2", "eps": 1e-6, "theta": 1000000.0, "tied": 1},
    "qwen2_yarn": LLAMA | {"arch": "qwen2", "layers": 3, "rope": "yarn", "factor": 4.0,
                           "original": 256, "context": 1024, "beta_fast": 32.0,
                           "beta_slow": 1.0},
    "qwen3": LLAMA | {"arch": "qwen3", "eps": 1e-6, "theta": 1000000.0, "head_dim": 32},
    "gemma2": {k: v for k, v in GEMMA.items() if k != "local_theta"} | {
        "arch": "gemma2", "layers": 4, "theta": 10000.0, "width": 32, "attention_cap": 2.0,
        "final_cap": 3.0},
    "gemma3": GEMMA | {"width": 32, "rope": "linear", "factor": 8.0},
    "phi3": PHI3,
    "phi3_window": PHI3 | {"layers": 3, "window": 16, "partial": 1.0, "tied": 1},
    "granite": LLAMA | {"arch": "granite", "layers": 3, "embedding_multiplier": 3.0, "residual_multiplier": 0.375,
                        "attention_multiplier": 0.125, "logits_scaling": 2.5},
    "mixtral": EXPERTS | {"arch": "mixtral", "expert_ffn": 96, "theta": 1000000.0},
    "mixtral_window": EXPERTS | {"arch": "mixtral", "expert_ffn": 96, "layers": 3, "window": 16, "tied": 1},
    "qwen2moe": EXPERTS | {"arch": "qwen2moe", "used": 3, "shared_ffn": 48, "eps": 1e-6},
    "qwen3moe": EXPERTS | {"arch": "qwen3moe", "used": 4, "head_dim": 32, "eps": 1e-6, "normalized": 1},
    "olmoe": EXPERTS | {"arch": "olmoe", "used": 3, "expert_ffn": 96, "kv_heads": 4},
    "olmo2": LLAMA | {"arch": "olmo2", "eps": 1e-6, "theta": 500000.0, "class": "Olmo2", "names": {
        "post_attention_layernorm": "post_attention_norm", "post_feedforward_layernorm": "post_ffw_norm"}},
    "smollm3": LLAMA | {"arch": "smollm3", "layers": 9, "eps": 1e-6, "theta": 5000000.0, "tied": 1, "pairs": "neighbours",
                        "class": "SmolLM3"},
    "smollm3_irregular": LLAMA | {"arch": "smollm3", "layers": 4, "class": "SmolLM3", "config": {
        "no_rope_layers": [1, 0, 0, 1], "use_sliding_window": True, "sliding_window": 16}},
    "gpt2": PLAIN | {"arch": "gpt2"},
    "gptneox": PLAIN | {"arch": "gptneox", "partial": 0.25, "theta": 10000.0, "parallel": 1, "tied": 0, "head_dim": 32,
                        "hidden": 128, "context": 512},
    "gptneox_serial": PLAIN | {"arch": "gptneox", "partial": 1.0, "theta": 1000.0, "parallel": 0, "tied": 0},
    "opt": PLAIN | {"arch": "opt"},
    "bert": PLAIN | {"arch": "bert", "eps": 1e-12},
    "deepseek2": LATENT | {"arch": "deepseek2", "groups": 4, "used_groups": 2, "scale": 1.5},
    "deepseek2_lite": {k: v for k, v in LATENT.items() if k != "query_rank"} | {
        "arch": "deepseek2", "scale": 1.0, "rope": "yarn", "factor": 4.0, "original": 256, "context": 1024, "beta_fast": 8.0,
        "beta_slow": 2.0, "mscale": 0.8, "mscale_all_dim": 0.6},
    "deepseek3": LATENT | {"arch": "deepseek3", "groups": 4, "used_groups": 2, "scale": 2.5},
    "gemma3_27b": GEMMA | {"width": 16, "hidden": 64, "layers": 62, "ffn": 64},
}
# transformers' names, and GGUF's without ".weight" and ".bias".
NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
         "post_attention_layernorm": "ffn_norm", "self_attn.qkv_proj": "attn_qkv",
         "mlp.gate_up_proj": "ffn_up", "mlp.gate": "ffn_gate_inp",
         "mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
         "mlp.shared_expert.down_proj": "ffn_down_shexp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp"}
GEMMA_NAMES = {"post_attention_layernorm": "post_attention_norm",
               "pre_feedforward_layernorm": "ffn_norm",
               "post_feedforward_layernorm": "post_ffw_norm"}
DEEPSEEK_NAMES = {"self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm",
                  "self_attn.q_b_proj": "attn_q_b", "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
                  "self_attn.kv_a_layernorm": "attn_kv_a_norm", "self_attn.kv_b_proj": "attn_kv_b",
                  "mlp.shared_experts.gate_proj": "ffn_gate_shexp", "mlp.shared_experts.up_proj": "ffn_up_shexp",
                  "mlp.shared_experts.down_proj": "ffn_down_shexp"}
PLAIN_NAMES = {
    "gpt2": {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm",
             "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down", "wte": "token_embd", "wpe": "position_embd",
             "ln_f": "output_norm"},
    "gptneox": {"input_layernorm": "attn_norm", "attention.query_key_value": "attn_qkv", "attention.dense": "attn_output",
                "post_attention_layernorm": "ffn_norm", "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down",
                "embed_in": "token_embd", "final_layer_norm": "output_norm", "embed_out": "output", "lm_head": "output"},
    "opt": {"self_attn_layer_norm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
            "self_attn.v_proj": "attn_v", "self_attn.out_proj": "attn_output", "final_layer_norm": "ffn_norm",
            "fc1": "ffn_up", "fc2": "ffn_down", "decoder.embed_tokens": "token_embd",
            "decoder.embed_positions": "position_embd", "decoder.final_layer_norm": "output_norm"},
    "bert": {"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
             "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
             "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm",
             "embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
             "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm"}}
TOP_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def hashes(name, count):
    """splitmix64 (Steele et al., 2014) of FNV-1a(name) + index."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    x = np.uint64(seed) + np.arange(count, dtype=np.uint64)
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def values(name, shape):
    """Multiples of 2^-11 in [-0.25, 0.25): exact in float32, and so is 1 plus them."""
    top = (hashes(name, int(np.prod(shape))) >> np.uint64(54)).astype(np.int64)
    return torch.tensor(((top - 512) / 2048).astype(np.float32).reshape(shape))


def gguf_name(name, case):
    arch = case["arch"]
    stem, kind = name.rsplit(".", 1)
    if arch in PLAIN_NAMES:
        layer = re.search(r"(?:^|\.)(?:h|layers|layer)\.(\d+)\.(.*)", stem)
        if layer:
            return f"blk.{layer[1]}.{PLAIN_NAMES[arch][layer[2]]}.{kind}"
        for root in ("transformer.", "gpt_neox.", "model."):
            stem = stem.removeprefix(root)
        return f"{PLAIN_NAMES[arch][stem]}.{kind}"
    if stem in TOP_NAMES:
        return f"{TOP_NAMES[stem]}.{kind}"
    _, _, layer, part = stem.split(".", 3)
    table = NAMES | (GEMMA_NAMES if arch.startswith("gemma") else {}) | DEEPSEEK_NAMES | case.get("names", {})
    return f"blk.{layer}.{table[part]}.{kind}"


def rope_parameters(case):
    kind = case.get("rope", "default")
    rope = {"rope_type": kind, "rope_theta": case["theta"]}
    if kind != "default":
        rope["factor"] = case["factor"]
    if "partial" in case:
        rope["partial_rotary_factor"] = case["partial"]
    if "original" in case:
        rope["original_max_position_embeddings"] = case["original"]
    if kind == "llama3":
        rope |= {"low_freq_factor": case["low"], "high_freq_factor": case["high"]}
    if kind == "yarn":
        rope |= {"beta_fast": case["beta_fast"], "beta_slow": case["beta_slow"]}
    return rope


def build_plain(case):
    arch = case["arch"]
    if arch == "gpt2":
        return hf.GPT2LMHeadModel(hf.GPT2Config(
            vocab_size=VOCABULARY, n_embd=case["hidden"], n_layer=case["layers"], n_head=case["heads"],
            n_inner=case["ffn"], n_positions=case["context"], layer_norm_epsilon=case["eps"],
            attn_implementation="eager", bos_token_id=0, eos_token_id=0))
    common = {"vocab_size": VOCABULARY, "hidden_size": case["hidden"], "num_hidden_layers": case["layers"],
              "num_attention_heads": case["heads"], "max_position_embeddings": case["context"],
              "attn_implementation": "eager"}
    if arch == "opt":
        return hf.OPTForCausalLM(hf.OPTConfig(**common, ffn_dim=case["ffn"], word_embed_proj_dim=case["hidden"]))
    common |= {"intermediate_size": case["ffn"], "layer_norm_eps": case["eps"]}
    if arch == "bert":
        return hf.BertModel(hf.BertConfig(**common), add_pooling_layer=False)
    return hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(
        **common, use_parallel_residual=bool(case["parallel"]),
        rope_parameters={"rope_type": "default", "rope_theta": case["theta"],
                         "partial_rotary_factor": case["partial"]}))


def build_deepseek(case):
    rope = {"rope_type": case.get("rope", "default"), "rope_theta": case["theta"]}
    if "rope" in case:
        rope |= {"factor": case["factor"], "original_max_position_embeddings": case["original"],
                 "beta_fast": case["beta_fast"], "beta_slow": case["beta_slow"], "mscale": case["mscale"],
                 "mscale_all_dim": case["mscale_all_dim"]}
    common = {"vocab_size": VOCABULARY, "hidden_size": case["hidden"], "intermediate_size": case["ffn"],
              "num_hidden_layers": case["layers"], "num_attention_heads": case["heads"],
              "num_key_value_heads": case["heads"], "rms_norm_eps": case["eps"],
              "max_position_embeddings": case["context"], "rope_parameters": rope, "tie_word_embeddings": False,
              "q_lora_rank": case.get("query_rank"), "kv_lora_rank": case["kv_rank"],
              "qk_nope_head_dim": case["plain_dim"], "qk_rope_head_dim": case["rotary_dim"],
              "v_head_dim": case["value_dim"], "n_routed_experts": case["experts"],
              "num_experts_per_tok": case["used"], "moe_intermediate_size": case["expert_ffn"],
              "n_shared_experts": case["shared"], "first_k_dense_replace": case["dense"],
              "routed_scaling_factor": case["scale"], "n_group": case.get("groups"),
              "topk_group": case.get("used_groups"), "attn_implementation": "eager",
              "experts_implementation": "eager"}
    if case["arch"] == "deepseek3":
        return hf.DeepseekV3ForCausalLM(hf.DeepseekV3Config(**common))
    method = "group_limited_greedy" if "groups" in case else "greedy"
    return hf.DeepseekV2ForCausalLM(hf.DeepseekV2Config(**common, topk_method=method))


def build(case):
    if case["arch"] in PLAIN_NAMES:
        return build_plain(case)
    if case["arch"].startswith("deepseek"):
        return build_deepseek(case)
    common = {"vocab_size": VOCABULARY, "hidden_size": case["hidden"],
              "num_hidden_layers": case["layers"], "num_attention_heads": case["heads"],
              "num_key_value_heads": case["kv_heads"], "head_dim": case["head_dim"],
              "intermediate_size": case["ffn"], "rms_norm_eps": case["eps"],
              "max_position_embeddings": case["context"], "rope_parameters": rope_parameters(case),
              "tie_word_embeddings": bool(case["tied"]), "attn_implementation": "eager"}
    if "class" in case:
        common |= {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
        config = getattr(hf, case["class"] + "Config")(**common, **case.get("config", {}))
        return getattr(hf, case["class"] + "ForCausalLM")(config)
    if case["arch"] == "qwen2":
        return hf.Qwen2ForCausalLM(hf.Qwen2Config(**common))
    if case["arch"] == "qwen3":
        return hf.Qwen3ForCausalLM(hf.Qwen3Config(**common))
    if case["arch"] == "gemma3":
        common["rope_parameters"] = {
            "full_attention": rope_parameters(case),
            "sliding_attention": {"rope_type": "default", "rope_theta": case["local_theta"]}}
        kinds = ["full_attention" if (i + 1) % 6 == 0 else "sliding_attention"
                 for i in range(case["layers"])]
        return hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(
            **common, layer_types=kinds, sliding_window=case["window"],
            query_pre_attn_scalar=case["width"]))
    if case["arch"] == "gemma2":
        kinds = ["full_attention" if (i + 1) % 2 == 0 else "sliding_attention"
                 for i in range(case["layers"])]
        return hf.Gemma2ForCausalLM(hf.Gemma2Config(
            **common, layer_types=kinds, sliding_window=case["window"], query_pre_attn_scalar=case["width"],
            attn_logit_softcapping=case["attention_cap"], final_logit_softcapping=case["final_cap"]))
    if case["arch"] == "phi3":
        return hf.Phi3ForCausalLM(hf.Phi3Config(**common, sliding_window=case.get("window"), pad_token_id=0))
    if case["arch"] == "granite":
        factors = {key: case[key] for key in ("embedding_multiplier", "residual_multiplier",
                                              "attention_multiplier", "logits_scaling")}
        return hf.GraniteForCausalLM(hf.GraniteConfig(**common, **factors))
    if "experts" in case:
        return build_experts(case, common)
    if "window" in case:
        return hf.MistralForCausalLM(hf.MistralConfig(**common, sliding_window=case["window"]))
    bias = bool(case.get("linear_bias", 0))
    return hf.LlamaForCausalLM(hf.LlamaConfig(**common, attention_bias=bias, mlp_bias=bias))


def build_experts(case, common):
    common |= {"num_experts_per_tok": case["used"], "experts_implementation": "eager"}
    if case["arch"] == "mixtral":
        return hf.MixtralForCausalLM(hf.MixtralConfig(
            **common, num_local_experts=case["experts"], sliding_window=case.get("window")))
    common |= {"num_experts": case["experts"], "norm_topk_prob": bool(case.get("normalized", 0))}
    if case["arch"] == "olmoe":
        return hf.OlmoeForCausalLM(hf.OlmoeConfig(**common))
    common["moe_intermediate_size"] = case["expert_ffn"]
    if case["arch"] == "qwen3moe":
        return hf.Qwen3MoeForCausalLM(hf.Qwen3MoeConfig(**common))
    return hf.Qwen2MoeForCausalLM(hf.Qwen2MoeConfig(**common, shared_expert_intermediate_size=case["shared_ffn"]))


def fill_experts(name, parameter, case):
    """A layer's experts, which transformers holds in two tensors and GGUF in three."""
    block = f"blk.{name.split('.')[2]}"
    _, rows, columns = parameter.shape
    if name.endswith("down_proj"):
        parameter.copy_(values(f"{block}.ffn_down_exps.weight", tuple(parameter.shape)))
        return
    parts = [values(f"{block}.{part}.weight", (case["experts"], rows // 2, columns))
             for part in ("ffn_gate_exps", "ffn_up_exps")]
    parameter.copy_(torch.cat(parts, dim=1))


def fill(model, case):
    for name, parameter in model.named_parameters():
        if ".experts." in name:
            fill_experts(name, parameter, case)
            continue
        arch = case["arch"]
        made_name = gguf_name(name, case)
        transposed = arch == "gpt2" and parameter.dim() == 2 and made_name.startswith("blk.")
        made = values(made_name, tuple(parameter.shape)[::-1] if transposed else tuple(parameter.shape))
        # Gemma's norms multiply by 1 + weight, the others' by the weight.
        if "norm" in made_name and made_name.endswith("weight") and not arch.startswith("gemma"):
            made = made + 1
        if transposed:
            made = made.T
        # GGUF has all queries, all keys, all values; transformers one head after the other.
        if arch == "gptneox" and "attn_qkv" in made_name:
            parts = made.reshape(3, case["heads"], case["head_dim"], -1)
            made = parts.transpose(0, 1).reshape(parameter.shape)
        parameter.copy_(made)
    for name, buffer in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            buffer.copy_(values(f"blk.{name.split('.')[2]}.exp_probs_b.bias", tuple(buffer.shape)))


def write_directory(model, case):
    """What tests write a Hugging Face directory from: save_pretrained's names and config.json."""
    model.config.architectures = [type(model).__name__]
    print("config", json.dumps(json.loads(model.config.to_json_string())))
    for name, parameter in model.named_parameters():
        print("tensor", gguf_name(name, case), name, *parameter.shape)


def write(name, case):
    model = build(case).float().eval()
    fill(model, case)
    tokens = (hashes(name + " tokens", TOKENS) >> np.uint64(33)).astype(np.int64) % VOCABULARY
    result = model(torch.tensor(tokens)[None])
    # An encoder has no logits: its hidden states.
    logits = (result.last_hidden_state if case["arch"] == "bert" else result.logits)[0].numpy()
    print("case", name)
    for key, value in (case | {"vocab": VOCABULARY}).items():
        if key not in ("class", "config", "names"):
            print("set", key, value)
    if "class" in case:
        write_directory(model, case)
    print("tokens", *tokens)
    for position in POSITIONS:
        print("position", position, *(f"{logit:.6f}" for logit in logits[position]))


np.seterr(over="ignore")
with torch.no_grad():
    for case_name, hyperparameters in CASES.items():
        if len(sys.argv) == 1 or case_name in sys.argv[1:]:
            write(case_name, hyperparameters)
