#!/usr/bin/env python3
"""Writes tests/data/dequant_golden.txt with the `gguf` package (pip install gguf numpy).

Lines: "dequantize TYPE BLOCKS FLOATS", "quantize TYPE FLOATS BLOCKS" (bytes as hex), and
"hash NAME VALUE": 64-bit FNV-1a over little-endian words, described where it is made.
"""
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

# Where a type's f16 fields lie in its block, and how many blocks to write.
TYPES = {
    "F32": ([], 8), "F16": ([0], 40), "BF16": ([], 24),
    "Q4_0": ([0], 5), "Q4_1": ([0, 2], 5), "Q5_0": ([0], 5), "Q5_1": ([0, 2], 5), "Q8_0": ([0], 5),
    "Q2_K": ([80, 82], 3), "Q3_K": ([108], 3), "Q4_K": ([0, 2], 3), "Q5_K": ([0, 2], 3),
    "Q6_K": ([208], 3), "IQ4_NL": ([0], 5), "IQ4_XS": ([0], 3), "MXFP4": ([], 6),
}
ENCODED = ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]


def finite_halves(rng, count):
    """Bits of finite f16, every exponent and sign alike; the first are subnormal and zero."""
    bits = rng.integers(0, 0x10000, count, dtype=np.uint16)
    bits = np.where((bits & 0x7C00) == 0x7C00, bits & 0x83FF, bits).astype(np.uint16)
    bits[:2] = [0x8001, 0x0000][: len(bits[:2])]
    return bits


def random_blocks(rng, name):
    halves, count = TYPES[name]
    _, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    if name == "F32":
        blocks = rng.standard_normal(count).astype(np.float32).view(np.uint8).reshape(count, 4)
    if name == "BF16":
        blocks[:, 1] &= 0xBF  # keeps the exponent below that of NaN
    if name == "MXFP4":
        blocks[:4, 0] = [0, 1, 2, 255]
    for at in halves:
        blocks[:, at:at + 2] = finite_halves(rng, count).view(np.uint8).reshape(count, 2)
    return blocks


def float_blocks(rng):
    """Rows of 32 floats of many magnitudes, with ties, a constant row and an all-zero row."""
    rows = rng.standard_normal((7, 32)).astype(np.float32)
    rows *= np.array([1, 1e-3, 30, 1e3, 1, 1, 1], dtype=np.float32)[:, None]
    rows[4] = np.round(rows[4] * 4) / 4
    rows[5] = np.float32(0.3)
    rows[6] = 0
    return rows


def fnv1a(words):
    value = 0xCBF29CE484222325
    for word in words.tolist():
        value = ((value ^ word) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def main(path):
    rng = np.random.default_rng(20240701)
    with open(path, "w") as out:
        with np.errstate(over="ignore"):
            for name in TYPES:
                blocks = random_blocks(rng, name)
                floats = quants.dequantize(blocks, GGMLQuantizationType[name])
                out.write(f"dequantize {name} {blocks.tobytes().hex()} {floats.tobytes().hex()}\n")
            rows = float_blocks(rng)
            for name in ENCODED:
                coded = quants.quantize(rows, GGMLQuantizationType[name])
                out.write(f"quantize {name} {rows.tobytes().hex()} {coded.tobytes().hex()}\n")
            # Every f16 that is not NaN, in order of its bits.
            halves = np.arange(0x10000, dtype=np.uint32).astype(np.uint16)
            halves = halves[~np.isnan(halves.view(np.float16))]
            words = halves.view(np.float16).astype(np.float32).view(np.uint32)
            out.write(f"hash f16_to_f32 {fnv1a(words):016x}\n")
            # Floats of every sign and exponent: bits i * 65537 with i ascending, NaN left out.
            floats = (np.arange(0x10000, dtype=np.uint32) * np.uint32(65537)).view(np.float32)
            floats = floats[~np.isnan(floats)]
            out.write(f"hash f32_to_f16 {fnv1a(floats.astype(np.float16).view(np.uint16)):016x}\n")
            coded = quants.quantize(floats.reshape(1, -1), GGMLQuantizationType.BF16)
            out.write(f"hash f32_to_bf16 {fnv1a(coded.view(np.uint16).ravel()):016x}\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "tests/data/dequant_golden.txt")
