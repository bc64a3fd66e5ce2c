#!/usr/bin/env python3
"""A Mixtral directory (safetensors) as a GGUF file with quantized weights, for benchmarks of modules
that change precision. The tokenizer is copied from a GGUF file of a model with the same one.

    moe_to_gguf.py DIRECTORY TOKENIZER.gguf OUT.gguf [--type q8_0|q4_0|f16]

Needs numpy and gguf. Norms and the router stay f32; the embedding, which is the output head as well,
is Q8_0 at least.
"""
import argparse
import json
import struct
from pathlib import Path

import gguf
import numpy as np
from gguf_copy import copy_metadata, is_tokenizer

TYPES = {"f16": gguf.GGMLQuantizationType.F16, "q8_0": gguf.GGMLQuantizationType.Q8_0,
         "q4_0": gguf.GGMLQuantizationType.Q4_0}


class Weights:
    def __init__(self, path):
        self.data = np.memmap(path, dtype=np.uint8, mode="r")
        size = struct.unpack("<Q", bytes(self.data[:8]))[0]
        self.header = json.loads(bytes(self.data[8:8 + size]))
        self.base = 8 + size

    def __call__(self, name):
        entry = self.header[name]
        begin, end = (self.base + x for x in entry["data_offsets"])
        kinds = {"F16": np.float16, "F32": np.float32}
        return self.data[begin:end].view(kinds[entry["dtype"]]).reshape(entry["shape"]).astype(np.float32)


def permute(weight, heads):
    """Rows for rotation in pairs (2p, 2p+1), as GGUF's llama family has them."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def add(writer, name, weight, kind):
    if kind == gguf.GGMLQuantizationType.F16:
        writer.add_tensor(name, weight.astype(np.float16))
    else:
        writer.add_tensor(name, gguf.quants.quantize(weight, kind), raw_dtype=kind)


def add_layer(writer, weights, config, layer, kind):
    source = f"model.layers.{layer}."
    out = f"blk.{layer}."
    for name, target in (("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm")):
        writer.add_tensor(f"{out}{target}.weight", weights(f"{source}{name}.weight"))
    heads = {"q": config["num_attention_heads"], "k": config["num_key_value_heads"]}
    for letter, target in (("q", "attn_q"), ("k", "attn_k"), ("v", "attn_v"), ("o", "attn_output")):
        weight = weights(f"{source}self_attn.{letter}_proj.weight")
        add(writer, f"{out}{target}.weight",
            permute(weight, heads[letter]) if letter in heads else weight, kind)
    moe = f"{source}block_sparse_moe."
    writer.add_tensor(f"{out}ffn_gate_inp.weight", weights(f"{moe}gate.weight"))
    for number, target in (("w1", "ffn_gate_exps"), ("w2", "ffn_down_exps"), ("w3", "ffn_up_exps")):
        stacked = np.stack([weights(f"{moe}experts.{e}.{number}.weight")
                            for e in range(config["num_local_experts"])])
        add(writer, f"{out}{target}.weight", stacked, kind)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("tokenizer")
    parser.add_argument("out")
    parser.add_argument("--type", choices=TYPES, default="q8_0")
    args = parser.parse_args()
    config = json.loads((args.directory / "config.json").read_text())
    weights = Weights(args.directory / "model.safetensors")
    kind = TYPES[args.type]
    writer = gguf.GGUFWriter(args.out, "llama")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_expert_count(config["num_local_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    copy_metadata(gguf.GGUFReader(args.tokenizer), writer, is_tokenizer)
    writer.add_tensor("output_norm.weight", weights("model.norm.weight"))
    head = gguf.GGMLQuantizationType.F16 if args.type == "f16" else gguf.GGMLQuantizationType.Q8_0
    add(writer, "token_embd.weight", weights("model.embed_tokens.weight"), head)
    for layer in range(config["num_hidden_layers"]):
        add_layer(writer, weights, config, layer, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
