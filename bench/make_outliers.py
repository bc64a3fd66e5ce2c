#!/usr/bin/env python3
"""Gives a GGUF model of floats (bench/dequantize_gguf.py) activation outliers without changing what it computes:
in each layer a few channels of both norms are scaled up and the same columns of the matrices that read them
down. Large models have such channels by themselves; quantizers of activations must cope with them.

    make_outliers.py IN.gguf OUT.gguf [--channels 6] [--factor 64] [--seed 1]
"""
import argparse

import gguf
import numpy as np
from dequantize_gguf import copy_metadata

READERS = {"attn_norm": ("attn_q", "attn_k", "attn_v"), "ffn_norm": ("ffn_gate", "ffn_up")}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--channels", type=int, default=6)
    parser.add_argument("--factor", type=float, default=64.0)  # a power of two: floats stay exact
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    reader = gguf.GGUFReader(args.source)
    tensors = {t.name: np.array(t.data) for t in reader.tensors}
    random = np.random.default_rng(args.seed)
    for name in [n for n in tensors if n.endswith(("attn_norm.weight", "ffn_norm.weight"))]:
        prefix, norm, _ = name.rsplit(".", 2)
        channels = random.choice(len(tensors[name]), args.channels, replace=False)
        tensors[name][channels] *= args.factor
        for matrix in READERS[norm]:
            tensors[f"{prefix}.{matrix}.weight"][:, channels] /= args.factor
    writer = gguf.GGUFWriter(args.target, reader.fields["general.architecture"].contents())
    copy_metadata(reader, writer)
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
