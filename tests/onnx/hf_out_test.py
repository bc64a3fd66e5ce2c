"""`tenon convert --to safetensors`: a GGUF file becomes the directory that it was made of, byte for byte; a
directory becomes itself, in shards; int8 and int4 weights are what the compressed-tensors package reads and
what Tenon itself reads back; transformers computes the same logits.

Needs the models smollm2-135m-instruct.gguf and smollm2-hf in the store ($TENON_HOME/models) and numpy; the
packages tokenizers, compressed_tensors and transformers (with torch) for their parts. Says what is missing.
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

HOME = pathlib.Path(os.environ.get("TENON_HOME", os.path.expanduser("~/.tenon")), "models")
GGUF, DIRECTORY = HOME / "smollm2-135m-instruct.gguf", HOME / "smollm2-hf"
DTYPES = {"F32": "float32", "F16": "float16", "I8": "int8", "I32": "int32", "I64": "int64"}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def convert(source, target, *flags):
    subprocess.run([os.environ["TENON_BINARY"], "convert", str(source), str(target), "--to", "safetensors",
                    *flags], check=True, timeout=300)


def tensors(np, directory):
    """Names to arrays, of one file or of the shards of an index."""
    index = directory / "model.safetensors.index.json"
    names = {"model.safetensors"}
    if index.exists():
        names = set(json.loads(index.read_text())["weight_map"].values())
    found = {}
    for name in names:
        data = np.memmap(directory / name, np.uint8, "r")
        length = struct.unpack("<Q", data[:8].tobytes())[0]
        header = json.loads(data[8:8 + length].tobytes())
        header.pop("__metadata__", None)
        for key, entry in header.items():
            begin, end = (8 + length + at for at in entry["data_offsets"])
            found[key] = data[begin:end].view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return found


def same(np, left, right):
    problems = [f"{sorted(set(left) ^ set(right))[:3]} are in one only"] if set(left) != set(right) else []
    return problems + [f"{name} differs" for name in left if name in right and (
        left[name].dtype != right[name].dtype or not np.array_equal(left[name], right[name]))]


def unpacked(np, found):
    """Floats of packed matrices by the format's own rules."""
    out = {}
    for name, scale in found.items():
        if not name.endswith("_scale"):
            continue
        stem = name[:-len("_scale")]
        if stem in found:
            levels = found[stem].astype(np.float32)
        else:
            words = found[stem + "_packed"].view(np.uint32)
            levels = np.stack([words >> (4 * i) & 15 for i in range(8)], -1).astype(np.float32) - 8
            levels = levels.reshape(found[stem + "_shape"])
        groups = scale.shape[1]
        spread = levels.reshape(levels.shape[0], groups, -1) * scale.astype(np.float32)[..., None]
        out[stem] = spread.reshape(levels.shape)
    return out


def check_package(np, found, values):
    """The package's own unpacking of some matrices, where it is installed."""
    try:
        import torch
        from compressed_tensors.compressors import unpack_from_int32
    except ImportError as error:
        print(f"left out: the Python package {error.name} is not installed")
        return []
    problems = []
    for name in [name for name in found if name.endswith("_packed")][:20]:
        stem = name[:-len("_packed")]
        shape = torch.Size(found[stem + "_shape"].tolist())
        levels = unpack_from_int32(torch.from_numpy(np.array(found[name])), 4, shape).numpy()
        scale = np.repeat(found[stem + "_scale"], 32, axis=1).astype(np.float32)
        if not np.array_equal(levels.astype(np.float32) * scale, values[stem]):
            problems.append(f"{stem}: compressed_tensors unpacks other values")
    print("compressed_tensors compared")
    return problems


def check_packed(np, folder):
    problems = []
    for flag in ("--int8", "--int4"):
        packed, floats = folder / flag, folder / f"{flag}-floats"
        convert(DIRECTORY, packed, flag)
        convert(packed, floats, "--dtype", "f32")
        found, back = tensors(np, packed), tensors(np, floats)
        values = unpacked(np, found)
        if len(values) < 200:
            problems.append(f"{flag}: only {len(values)} packed matrices")
        problems += [f"{flag}: {name} is read back otherwise" for name in values
                     if not np.array_equal(values[name], back[name])]
        problems += check_package(np, found, values)
    return problems


def check_tokenizer(directory):
    try:
        import tokenizers
    except ImportError:
        print("left out: the Python package tokenizers is not installed")
        return []
    made = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    given = tokenizers.Tokenizer.from_file(str(DIRECTORY / "tokenizer.json"))
    texts = ["The capital of France", "1234 5 a1", "na\u00efve \U0001f600\n\n\n  x", "don't <|im_start|>u\n"]
    return [f"{text!r} has other tokens" for text in texts if made.encode(text).ids != given.encode(text).ids]


def check_transformers(directory):
    if not os.environ.get("TENON_TEST_TRANSFORMERS"):
        print("left out: transformers, which takes a minute (TENON_TEST_TRANSFORMERS=1)")
        return []
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    ids = AutoTokenizer.from_pretrained(directory)("The three primary colours", return_tensors="pt").input_ids
    with torch.no_grad():
        ours, theirs = (AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)(ids).logits
                        for path in (directory, DIRECTORY))
    return [] if torch.equal(ours, theirs) else ["transformers computes other logits"]


def main():
    try:
        import numpy as np
    except ImportError:
        skip("the Python package numpy is not installed")
    for needed in (GGUF, DIRECTORY / "config.json"):
        if not needed.exists():
            skip(f"{needed} is missing")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        convert(GGUF, folder / "made", "--dtype", "f32")
        convert(DIRECTORY, folder / "shards", "--shard-size", "100MB")
        original = tensors(np, DIRECTORY)
        problems = same(np, tensors(np, folder / "made"), original)
        problems += same(np, tensors(np, folder / "shards"), original)
        problems += check_tokenizer(folder / "made") + check_transformers(folder / "made")
        problems += check_packed(np, folder)
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()
