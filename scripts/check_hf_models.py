#!/usr/bin/env python3
"""Compares models in Hugging Face directories with transformers in fp32: best tokens and divergence over 1,000
positions, of small random models that transformers itself saves, one for each architecture and kind of rotary
scaling, as fp32, as bf16, and in shards.

    check_hf_models.py DRIVER [--only NAME] [DIRECTORY...]     exit code 77: torch or transformers is missing

DRIVER is tests/hf/parity/logit_driver. Directories are checked on random tokens too; where none is named, after the
small models those of STORED that are in $TENON_HOME/models.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

SKIP = 77
POSITIONS = 1000
LEAST_TOP1, MOST_KL = 0.999, 1e-5
STORED = ["smollm2-hf", "minilm"]
BASE = {"vocab_size": 512, "hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 4, "num_attention_heads": 8,
        "num_key_value_heads": 2, "max_position_embeddings": 2048, "initializer_range": 0.2, "bos_token_id": 1,
        "eos_token_id": [2, 3], "pad_token_id": 0}


RENAMED_IN_GPT2 = {"hidden_size": "n_embd", "intermediate_size": "n_inner", "num_hidden_layers": "n_layer",
                   "num_attention_heads": "n_head", "max_position_embeddings": "n_positions"}


def rope(kind, **more):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **more}}


def cases():
    gemma = {"head_dim": 32, "sliding_window": 100, "query_pre_attn_scalar": 24}
    yarn = rope("yarn", factor=4.0, original_max_position_embeddings=512)
    yield "llama", "Llama", {}
    yield "llama, biases", "Llama", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}
    yield "llama 3", "Llama", rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                   original_max_position_embeddings=256)
    yield "llama, linear", "Llama", rope("linear", factor=4.0)
    yield "llama, yarn", "Llama", yarn
    yield "llama, yarn of DeepSeek", "Llama", rope("yarn", factor=8.0, original_max_position_embeddings=256, mscale=1.0,
                                                   mscale_all_dim=0.5, beta_fast=16, beta_slow=2)
    yield "mistral", "Mistral", {"sliding_window": 128, "head_dim": 32}
    yield "mistral without window", "Mistral", {"sliding_window": None}
    yield "qwen 2", "Qwen2", {}
    yield "qwen 2, windows", "Qwen2", {"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 2}
    yield "qwen 3", "Qwen3", {"head_dim": 32, "tie_word_embeddings": True}
    yield "gemma 2", "Gemma2", gemma
    yield "gemma 3", "Gemma3", {**gemma, "num_hidden_layers": 7}
    yield "phi 3", "Phi3", {"sliding_window": 200}
    yield "phi 3, partial", "Phi3", {"sliding_window": None, "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}}
    yield "granite", "Granite", {"embedding_multiplier": 6.0, "residual_multiplier": 0.3, "attention_multiplier": 0.1,
                                 "logits_scaling": 4.0}
    experts = {"num_experts_per_tok": 3, "moe_intermediate_size": 64, "num_experts": 8}
    yield "mixtral", "Mixtral", {"num_experts_per_tok": 2, "num_local_experts": 8, "sliding_window": None}
    yield "qwen 2 moe", "Qwen2Moe", {**experts, "shared_expert_intermediate_size": 96}
    yield "qwen 2 moe, dense layers", "Qwen2Moe", {**experts, "shared_expert_intermediate_size": 96,
                                                   "decoder_sparse_step": 2, "mlp_only_layers": [3]}
    yield "qwen 3 moe", "Qwen3Moe", {**experts, "norm_topk_prob": True, "head_dim": 32}
    yield "olmoe", "Olmoe", {**experts, "num_key_value_heads": 8}
    yield "olmo 2", "Olmo2", {}
    yield "smollm 3", "SmolLM3", {"num_hidden_layers": 9}
    yield "smollm 3, windows", "SmolLM3", {"no_rope_layers": [0, 1, 1, 0, 1, 0], "use_sliding_window": True,
                                           "sliding_window": 64}
    yield "gpt 2", "GPT2", {}
    yield "gpt neox", "GPTNeoX", {}
    yield "gpt neox, one after the other", "GPTNeoX", {"use_parallel_residual": False}
    yield "opt", "OPT", {"ffn_dim": 192}
    yield "bert", "Bert", {}
    latent = {"q_lora_rank": 48, "kv_lora_rank": 64, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
              "num_key_value_heads": 8, "n_routed_experts": 16, "num_experts_per_tok": 3, "moe_intermediate_size": 64,
              "n_shared_experts": 2, "first_k_dense_replace": 1, "n_group": 4, "topk_group": 2}
    yield "deepseek 2", "DeepseekV2", {**latent, "topk_method": "group_limited_greedy"}
    yield "deepseek 2 lite", "DeepseekV2", {**latent, "q_lora_rank": None, **rope(
        "yarn", factor=8.0, original_max_position_embeddings=256, mscale=0.7, mscale_all_dim=0.7)}
    yield "deepseek 3", "DeepseekV3", latent


def make(name, changes):
    import torch
    import transformers as hf

    torch.manual_seed(len(name))
    config_class = getattr(hf, f"{name}TextConfig" if name == "Gemma3" else f"{name}Config")
    classes = {"GPT2": "GPT2LMHeadModel", "Bert": "BertModel"}
    base = BASE if name != "GPT2" else {key: value for key, value in BASE.items() if key not in RENAMED_IN_GPT2} | {
        new: BASE[old] for old, new in RENAMED_IN_GPT2.items()}
    model = getattr(hf, classes.get(name, f"{name}ForCausalLM"))(config_class(**{**base, **changes}))
    # Norm weights start at one, or at zero, and biases at zero: nothing would show a mistake in them.
    for key, parameter in model.named_parameters():
        if parameter.dim() == 1:
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


def tokenizer(vocabulary):
    from tokenizers import Tokenizer, models

    return Tokenizer(models.WordLevel({str(i): i for i in range(vocabulary)}, unk_token="0"))


def compare(driver, label, directory, model):
    import numpy as np
    import torch

    vocabulary = model.config.get_text_config().vocab_size
    ids = np.random.default_rng(7).integers(0, vocabulary, POSITIONS).astype(np.int32)
    if model.config.model_type == "bert":
        return compare_encoder(driver, label, directory, model, ids[:500])
    done = subprocess.run([driver, directory], input=ids.tobytes(), capture_output=True)
    if done.returncode != 0:
        print(f"{label}: {done.stderr.decode()}")
        return True
    found = torch.tensor(np.frombuffer(done.stdout, np.float32).reshape(POSITIONS, vocabulary).copy()).double()
    expected = model(torch.tensor(ids.astype(np.int64))[None]).logits[0].double()
    p, q = expected.log_softmax(-1), found.log_softmax(-1)
    kl = (p.exp() * (p - q)).sum(-1).mean().item()
    top1 = (expected.argmax(-1) == found.argmax(-1)).double().mean().item()
    worst = (expected - found).abs().max().item()
    failed = top1 < LEAST_TOP1 or not kl < MOST_KL
    print(f"{label}: top-1 {top1:.4f}, KL {kl:.2e}, largest error {worst:.1e} of {expected.std().item():.1f}"
          f"{' FAILED' if failed else ''}")
    return failed


def compare_encoder(driver, label, directory, model, ids):
    """The mean of the hidden states."""
    import numpy as np
    import torch

    done = subprocess.run([driver, directory], input=ids.tobytes(), capture_output=True)
    if done.returncode != 0:
        print(f"{label}: {done.stderr.decode()}")
        return True
    found = torch.tensor(np.frombuffer(done.stdout, np.float32).copy()).double()
    expected = model(torch.tensor(ids.astype(np.int64))[None]).last_hidden_state[0].mean(0).double()
    cosine = torch.nn.functional.cosine_similarity(found, expected, dim=0).item()
    worst = (expected - found).abs().max().item()
    failed = cosine < 1 - 1e-6 or not worst < 1e-4
    print(f"{label}: cosine {cosine:.8f}, largest error {worst:.1e} of {expected.std().item():.2f}"
          f"{' FAILED' if failed else ''}")
    return failed


def check_made(driver, label, name, changes):
    import torch

    failed = False
    model = make(name, changes)
    for kind, dtype, size in (("fp32", torch.float32, "1GB"), ("bf16, shards", torch.bfloat16, "200KB")):
        with tempfile.TemporaryDirectory() as folder:
            model.to(dtype).save_pretrained(folder, max_shard_size=size)
            tokenizer(BASE["vocab_size"]).save(f"{folder}/tokenizer.json")
            # Loaded again: rotary frequencies were rounded with the weights.
            saved = type(model).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
            failed |= compare(driver, f"{label}, {kind}", folder, saved.eval())
    return failed


def check_directory(driver, directory):
    import torch
    import transformers as hf

    bert = hf.AutoConfig.from_pretrained(directory).model_type == "bert"
    kind = hf.AutoModel if bert else hf.AutoModelForCausalLM
    model = kind.from_pretrained(directory, dtype=torch.float32).eval()
    return compare(driver, directory, directory, model)


def stored():
    folder = pathlib.Path(os.environ.get("TENON_HOME", os.path.expanduser("~/.tenon")), "models")
    for name in STORED:
        if (folder / name / "config.json").exists():
            yield str(folder / name)
        else:
            print(f"left out: {folder / name} is missing")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("driver")
    parser.add_argument("directories", nargs="*")
    parser.add_argument("--only", default="")
    flags = parser.parse_args()
    try:
        import torch
        import transformers  # noqa: F401
    except (ImportError, OSError) as error:
        print(f"skipped: {error}")
        return SKIP
    failed = False
    with torch.no_grad():
        for directory in flags.directories or ([] if flags.only else stored()):
            failed |= check_directory(flags.driver, directory)
        if flags.directories:
            return int(failed)
        for label, name, changes in cases():
            if flags.only in label:
                failed |= check_made(flags.driver, label, name, changes)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
