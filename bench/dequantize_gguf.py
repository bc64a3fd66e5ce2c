#!/usr/bin/env python3
"""Writes a GGUF model with all matrices as floats, the metadata unchanged: the start for fair comparisons of
quantizers, which must all begin with the same numbers.

    dequantize_gguf.py IN.gguf OUT.gguf f32|f16
"""
import sys

import gguf
import numpy as np


def copy_metadata(reader, writer):
    skip = ("GGUF.", "general.architecture", "general.file_type", "general.quantization_version")
    for field in reader.fields.values():
        if field.name.startswith(skip):
            continue
        kind = field.types[0]
        element = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, element)


def main():
    source, target, dtype = sys.argv[1:]
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    copy_metadata(reader, writer)
    writer.add_file_type(0 if dtype == "f32" else 1)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        is_matrix = len(tensor.shape) > 1
        writer.add_tensor(tensor.name, values.astype(np.float16 if is_matrix and dtype == "f16" else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
