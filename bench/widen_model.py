#!/usr/bin/env python3
"""Makes a larger model that says what a small one says: a llama GGUF file, padded with zero weights.

  bench/widen_model.py smollm2-135m-instruct.gguf --heads 27 --feed-forward 4608 --out wide-1b.gguf

Speed and memory are those of the larger shape, while tokens, and so what drafts and routers meet, are a real
model's. The new channels stay zero: a norm over them divides by a smaller mean, which its weights and epsilon make up
for exactly; new heads have zero queries, keys, values and outputs. Writes F16, for `tenon quantize` to go on from."""
import argparse
import math

import gguf
import numpy as np
from gguf_copy import copy_metadata, is_tokenizer


def hyperparameter(reader, name):
    return reader.fields[f"llama.{name}"].contents()


def padded(name, data, width, queries, keys, feed_forward, norm_scale):
    """The tensor in its larger shape; numpy's order: [out, in]."""
    rows_columns = {
        "attn_q": (queries, width), "attn_k": (keys, width), "attn_v": (keys, width), "attn_output": (width, queries),
        "ffn_gate": (feed_forward, width), "ffn_up": (feed_forward, width), "ffn_down": (width, feed_forward),
        "token_embd": (data.shape[0], width), "output": (data.shape[0], width),
    }
    kind = name.removesuffix(".weight").split(".")[-1]
    if kind.endswith("norm"):
        larger = np.zeros(width, np.float32)
        larger[:data.shape[0]] = data * norm_scale
        return larger
    if kind not in rows_columns:
        raise SystemExit(f"{name}: expected a llama model without biases")
    larger = np.zeros(rows_columns[kind], np.float16)
    larger[:data.shape[0], :data.shape[1]] = data
    return larger


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("--heads", type=int, required=True, help="query heads of the larger model")
    parser.add_argument("--feed-forward", type=int, required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    reader = gguf.GGUFReader(args.source)
    heads, kv_heads = hyperparameter(reader, "attention.head_count"), hyperparameter(reader, "attention.head_count_kv")
    old_width = hyperparameter(reader, "embedding_length")
    head_size = old_width // heads
    if args.heads < heads or args.heads % (heads // kv_heads):
        raise SystemExit(f"--heads: expected a multiple of {heads // kv_heads} from {heads} on")
    new_kv_heads = args.heads * kv_heads // heads
    width = args.heads * head_size
    share = old_width / width  # of the channels that are not zero
    writer = gguf.GGUFWriter(args.out, "llama")
    writer.add_name(f"{args.source} widened to {width}")
    writer.add_context_length(hyperparameter(reader, "context_length"))
    writer.add_embedding_length(width)
    writer.add_block_count(hyperparameter(reader, "block_count"))
    writer.add_feed_forward_length(args.feed_forward)
    writer.add_head_count(args.heads)
    writer.add_head_count_kv(new_kv_heads)
    writer.add_layer_norm_rms_eps(hyperparameter(reader, "attention.layer_norm_rms_epsilon") * share)
    writer.add_rope_dimension_count(head_size)
    writer.add_rope_freq_base(hyperparameter(reader, "rope.freq_base"))
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    copy_metadata(reader, writer, is_tokenizer)
    for tensor in reader.tensors:
        data = gguf.dequantize(tensor.data, tensor.tensor_type)
        sizes = (width, width, new_kv_heads * head_size, args.feed_forward)
        writer.add_tensor(tensor.name, padded(tensor.name, data, *sizes, math.sqrt(share)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file(progress=True)
    writer.close()


if __name__ == "__main__":
    main()
