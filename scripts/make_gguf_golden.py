#!/usr/bin/env python3
"""Writes tests/data/sample.gguf and, from the `gguf` package's own reader, what is in it:
tests/data/sample_gguf.txt (pip install gguf numpy).

Lines: "key NAME VALUE" (VALUE as hex of the UTF-8 text, the number, or "NUMBER TYPE" of an array)
and "tensor NAME TYPE OFFSET BYTES DIMENSIONS" with the dimensions outermost first.
"""
import sys

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import quant_shape_to_byte_shape

TENSORS = [
    ("token_embd.weight", "F32", (8, 32)), ("blk.0.a.weight", "Q4_K", (3, 256)),
    ("blk.0.b.weight", "Q8_0", (2, 4, 64)), ("blk.0.c.weight", "F16", (7,)),
    ("blk.0.d.weight", "MXFP4", (1, 5, 2, 32)), ("blk.0.e.weight", "IQ4_XS", (256,)),
]


def write(path):
    rng = np.random.default_rng(7)
    writer = GGUFWriter(path, "sample")
    writer.add_name("Sample \u00e9")
    writer.add_custom_alignment(64)
    writer.add_block_count(1)
    writer.add_float32("sample.small", 1e-6)
    writer.add_float64("sample.tenth", 0.1)
    writer.add_bool("sample.yes", True)
    writer.add_int64("sample.negative", -(1 << 40))
    writer.add_uint8("sample.byte", 200)
    writer.add_array("sample.words", ["a", "", "\u00df"])
    writer.add_array("sample.numbers", [1, 2, 3, 4])
    for name, kind, shape in TENSORS:
        quantization = GGMLQuantizationType[kind]
        if kind in ("F32", "F16"):
            data = rng.standard_normal(shape).astype(np.float32 if kind == "F32" else np.float16)
            writer.add_tensor(name, data)
        else:
            data = rng.integers(0, 256, quant_shape_to_byte_shape(shape, quantization), np.uint8)
            writer.add_tensor(name, data, raw_dtype=quantization)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def describe(field):
    if field.types[0] == GGUFValueType.ARRAY:
        return f"{len(field.data)} {field.types[-1].name}"
    value = field.contents()
    if isinstance(value, str):
        return value.encode().hex()
    return str(int(value)) if isinstance(value, (bool, int)) else repr(float(value))


def main(folder):
    write(f"{folder}/sample.gguf")
    reader = GGUFReader(f"{folder}/sample.gguf")
    with open(f"{folder}/sample_gguf.txt", "w") as out:
        for name, field in reader.fields.items():
            if not name.startswith("GGUF."):
                out.write(f"key {name} {describe(field)}\n")
        for tensor in reader.tensors:
            dimensions = " ".join(str(extent) for extent in reversed(tensor.shape.tolist()))
            out.write(f"tensor {tensor.name} {tensor.tensor_type.name} {tensor.data_offset} "
                      f"{tensor.n_bytes} {dimensions}\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "tests/data")
