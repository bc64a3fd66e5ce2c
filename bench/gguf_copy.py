"""Metadata from one GGUF file to another, with its types."""
import gguf


def copy_metadata(reader, writer, wanted, change=lambda name, value: value):
    """The fields whose names `wanted` takes; `change` gives the value that is written."""
    for name, field in reader.fields.items():
        if not wanted(name):
            continue
        kind = field.types[0]
        element = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, change(name, field.contents()), kind, sub_type=element)


def is_tokenizer(name):
    return name.startswith("tokenizer.")
