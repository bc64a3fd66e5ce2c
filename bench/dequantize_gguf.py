#!/usr/bin/env python3
"""Writes a GGUF model with all matrices as floats or in Q8_0, the metadata unchanged: the start for fair
comparisons of quantizers, which must all begin with the same numbers, and models of 8 and 16 bits for speed.

    dequantize_gguf.py IN.gguf OUT.gguf f32|f16|bf16|bf16-f16|q8_0

bf16-f16: F16 of values that were rounded to BF16 before, as files of published models are, whose weights are BF16.
"""
import sys

import gguf
import numpy as np
from gguf_copy import copy_metadata


# What the writer sets itself.
OWN = ("GGUF.", "general.architecture", "general.file_type", "general.quantization_version")

# Of matrices; the numbers are general.file_type's.
TYPES = {"bf16-f16": (gguf.GGMLQuantizationType.F16, 1),
         "f32": (gguf.GGMLQuantizationType.F32, 0), "f16": (gguf.GGMLQuantizationType.F16, 1),
         "q8_0": (gguf.GGMLQuantizationType.Q8_0, 7), "bf16": (gguf.GGMLQuantizationType.BF16, 32)}


def main():
    source, target, dtype = sys.argv[1:]
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    copy_metadata(reader, writer, lambda name: not name.startswith(OWN))
    kind, file_type = TYPES[dtype]
    writer.add_file_type(file_type)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if len(tensor.shape) < 2 or dtype == "f32":
            writer.add_tensor(tensor.name, values.astype(np.float32))
        elif dtype == "bf16-f16":
            rounded = gguf.quants.dequantize(gguf.quants.quantize(values, TYPES["bf16"][0]), TYPES["bf16"][0])
            writer.add_tensor(tensor.name, rounded.astype(np.float16))
        elif dtype == "f16":
            writer.add_tensor(tensor.name, values.astype(np.float16))
        else:
            writer.add_tensor(tensor.name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
