#!/usr/bin/env python3
"""Writes a GGUF file of llama-3.2-1B's shape with random weights, so that speed is not judged by one
small model. The tokenizer comes from another GGUF file, filled up with unused tokens.

  bench/make_model.py --type Q4_0 --tokenizer smollm2-135m-instruct.gguf --out random-1b-q4_0.gguf

What it says means nothing; its logits are finite and every engine that reads GGUF runs it."""
import argparse

import gguf
import numpy as np
from gguf_copy import copy_metadata, is_tokenizer

LAYERS, WIDTH, HEADS, KV_HEADS, HEAD_DIM, FEED_FORWARD, VOCABULARY = 16, 2048, 32, 8, 64, 8192, 128256

# Block bytes, values in a block, f16 fields (offset, size for weights of about 0.02).
FORMATS = {
    "Q4_0": (18, 32, [(0, 0.004)]),
    "Q8_0": (34, 32, [(0, 0.0003)]),
    "Q4_K": (144, 256, [(0, 0.0001), (2, 0.0008)]),
    "Q6_K": (210, 256, [(208, 0.00002)]),
    "F16": (2, 1, []),
}


def random_bytes(rng, name, rows, columns):
    block_bytes, values, fields = FORMATS[name]
    if name == "F16":
        return (rng.standard_normal((rows, columns), np.float32) * 0.02).astype(np.float16)
    blocks = rows * columns // values
    data = rng.integers(0, 256, (blocks, block_bytes), np.uint8)
    for offset, size in fields:
        scale = (size * (0.5 + rng.random(blocks, np.float32))).astype(np.float16)
        data[:, offset:offset + 2] = scale.view(np.uint8).reshape(blocks, 2)
    return data.reshape(rows, columns // values * block_bytes)


def filled_up(name, value):
    missing = VOCABULARY - len(value) if isinstance(value, list) else 0
    if name.endswith("ggml.tokens"):
        return value + [f"<unused{i}>" for i in range(missing)]
    if name.endswith("token_type"):
        return value + [5] * missing  # unused
    if name.endswith("scores"):
        return value + [0.0] * missing
    return value


def copy_tokenizer(writer, path):
    def wanted(name):
        return is_tokenizer(name) and not name.endswith("chat_template")
    copy_metadata(gguf.GGUFReader(path), writer, wanted, filled_up)


def add_hyperparameters(writer):
    writer.add_context_length(131072)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_rope_freq_base(500000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)


def matrices(layer):
    prefix = f"blk.{layer}."
    return [(prefix + "attn_q.weight", WIDTH, WIDTH), (prefix + "attn_k.weight", KV_HEADS * HEAD_DIM, WIDTH),
            (prefix + "attn_v.weight", KV_HEADS * HEAD_DIM, WIDTH), (prefix + "attn_output.weight", WIDTH, WIDTH),
            (prefix + "ffn_gate.weight", FEED_FORWARD, WIDTH), (prefix + "ffn_up.weight", FEED_FORWARD, WIDTH),
            (prefix + "ffn_down.weight", WIDTH, FEED_FORWARD)]


def format_of(kind, name):
    """The Q4_K_M mix: Q6_K for the embedding and for half of the value and down projections."""
    if kind != "Q4_K_M":
        return kind
    important = name.startswith("token_embd") or (
        ("attn_v" in name or "ffn_down" in name) and int(name.split(".")[1]) % 2 == 0)
    return "Q6_K" if important else "Q4_K"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--type", choices=["Q4_0", "Q8_0", "Q4_K_M", "F16"], default="Q4_0")
    parser.add_argument("--tokenizer", required=True, help="a GGUF file whose tokenizer is copied")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    writer = gguf.GGUFWriter(args.out, "llama")
    add_hyperparameters(writer)
    copy_tokenizer(writer, args.tokenizer)

    def add_matrix(name, rows, columns):
        kind = format_of(args.type, name)
        writer.add_tensor(name, random_bytes(rng, kind, rows, columns),
                          raw_dtype=getattr(gguf.GGMLQuantizationType, kind))

    add_matrix("token_embd.weight", VOCABULARY, WIDTH)
    for layer in range(LAYERS):
        for matrix in matrices(layer):
            add_matrix(*matrix)
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{norm}.weight", np.ones(WIDTH, np.float32))
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
