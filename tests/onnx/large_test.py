"""Within limits: a made-up model larger than --max-memory is written as GGUF and as safetensors with less
resident memory than that, and `run` gives the tokens that it gives without a limit; limits that are too small
are refused with what is needed; shards of both formats are complete, and gguf-py and Tenon read split GGUF files.
And `--to tensorrt`: a stand-in for trtexec records how it is called (that alone is tested: TensorRT itself is
not there).

Needs nothing; the Python package gguf for its part.
"""
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

TENON = os.environ["TENON_BINARY"]
LIMIT_MB = 96
# The largest matrix, 65 MB, is in memory while it is read.
RUN_LIMIT_MB = 128
# 4 layers of 1024 in float16, and two tables of 33,000 tokens: 210 MB.
WIDTH, LAYERS, FFN, VOCAB = 1024, 4, 2816, 33000


def run(*arguments, path=None, output=subprocess.DEVNULL):
    """Exit code, standard error, and the most resident bytes of the process."""
    environment = dict(os.environ, **({"PATH": path} if path else {}))
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen([TENON, *map(str, arguments)], stdout=output, stderr=errors, env=environment)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        return child.returncode, errors.read(), usage.ru_maxrss * 1024


def shapes(width, layers, ffn, vocab):
    yield "model.embed_tokens.weight", [vocab, width]
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"{prefix}{name}.weight", [width]
        for name in "qkvo":
            yield f"{prefix}self_attn.{name}_proj.weight", [width, width]
        yield f"{prefix}mlp.gate_proj.weight", [ffn, width]
        yield f"{prefix}mlp.up_proj.weight", [ffn, width]
        yield f"{prefix}mlp.down_proj.weight", [width, ffn]
    yield "model.norm.weight", [width]
    yield "lm_head.weight", [vocab, width]


def make_model(folder, width, layers, ffn, vocab):
    """A Hugging Face directory of a llama with random float16 weights."""
    folder.mkdir()
    header, offset = {}, 0
    for name, shape in shapes(width, layers, ffn, vocab):
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    generator = random.Random(5)
    # Exponents below 1: any bits are a small number.
    piece = b"".join(struct.pack("<H", generator.getrandbits(16) & 0x9FFF | 0x1000) for _ in range(50021))
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for at in range(0, offset, len(piece)):
            file.write(piece[:min(len(piece), offset - at)])
    config = {"architectures": ["LlamaForCausalLM"], "hidden_size": width, "num_hidden_layers": layers,
              "intermediate_size": ffn, "vocab_size": vocab, "num_attention_heads": width // 64,
              "num_key_value_heads": width // 64, "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
              "rope_theta": 10000.0, "tie_word_embeddings": False, "eos_token_id": 0}
    (folder / "config.json").write_text(json.dumps(config))
    letters = [chr(c) for c in [*range(33, 127), *range(161, 173), *range(174, 324)]]
    vocabulary = {letter: i for i, letter in enumerate(letters)} | {"ab": len(letters)}
    (folder / "tokenizer.json").write_text(json.dumps({
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}, "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [["a", "b"]]}}))


def tensor_bytes(folder):
    """Names to values, of the shards of an index."""
    found = {}
    names = set(json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"].values())
    for name in names:
        data = (folder / name).read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        for key, entry in json.loads(data[8:8 + length]).items():
            if key != "__metadata__":
                begin, end = entry["data_offsets"]
                found[key] = data[8 + length + begin:8 + length + end]
    return found, len(names)


def check_memory(folder, model):
    problems = []
    flags = ["--max-memory", f"{LIMIT_MB}MB", "--shard-size", "60MB"]
    for name, more in (("gguf", []), ("safetensors", ["--dtype", "bf16"]), ("onnx", [])):
        target = folder / f"out.{name}" if name != "safetensors" else folder / "out"
        code, errors, peak = run("convert", model, target, "--to", name, *flags, *more)
        print(f"{name}: peak {peak >> 20} MB of {LIMIT_MB}")
        if code != 0 or peak > LIMIT_MB << 20:
            problems.append(f"{name}: exit {code}, peak {peak >> 20} MB: {errors}")
    code, errors, _ = run("convert", model, folder / "no.gguf", "--max-memory", "8MB")
    if code != 1 or "--max-memory" not in errors or (folder / "no.gguf").exists():
        problems.append(f"a limit of 8 MB: exit {code}, {errors}")
    code, errors, _ = run("run", model, "-p", "a", "-n", "1", "--max-memory", "64MB")
    if code != 1 or "weights" not in errors:
        problems.append(f"run within 64 MB: exit {code}, {errors}")
    return problems + check_run(folder, model)


def check_run(folder, model):
    """The model, larger than what it may take, runs in less and says what it says otherwise."""
    said = {}
    for limit in (None, RUN_LIMIT_MB):
        flags = ["--max-memory", f"{limit}MB"] if limit else []
        with open(folder / "said.json", "w+") as file:
            code, errors, peak = run("run", model, "-p", "abc", "-n", "4", "--temp", "0", "--raw", "--ignore-eos",
                                     "--json", "-t", "2", *flags, output=file)
            file.seek(0)
            text = file.read()
        print(f"run: peak {peak >> 20} MB of {limit}")
        if code != 0 or (limit and peak > limit << 20):
            return [f"run within {limit} MB: exit {code}, peak {peak >> 20} MB: {errors}"]
        if limit and "--max-memory" not in errors:
            return [f"run within {limit} MB does not say that it is slower: {errors}"]
        said[limit] = json.loads(text)["token_ids"]
    return [] if said[None] == said[RUN_LIMIT_MB] and len(said[None]) == 4 else [f"other tokens: {said}"]


def check_gguf(folder):
    shards = sorted(folder.glob("out-*-of-*.gguf"))
    if len(shards) < 3:
        return [f"{len(shards)} shards of 60 MB"]
    problems = []
    code, errors, _ = run("inspect", shards[1])
    if code != 0:
        problems.append(f"split GGUF is not read: {errors}")
    try:
        import gguf
    except ImportError:
        print("left out: the Python package gguf is not installed")
        return problems
    count = 0
    for i, shard in enumerate(shards):
        reader = gguf.GGUFReader(str(shard))
        count += len(reader.tensors)
        number = reader.fields["split.no"].parts[-1][0]
        of = reader.fields["split.count"].parts[-1][0]
        if (number, of) != (i, len(shards)):
            problems.append(f"{shard.name} says {number} of {of}")
    if count != len(list(shapes(WIDTH, LAYERS, FFN, VOCAB))):
        problems.append(f"{count} tensors in the shards")
    return problems


def check_safetensors(folder, model):
    code, errors, _ = run("convert", model, folder / "same", "--to", "safetensors", "--shard-size", "60MB")
    if code != 0:
        return [errors]
    data = (model / "model.safetensors").read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    found, shards = tensor_bytes(folder / "same")
    problems = [] if shards >= 3 else [f"{shards} shards of 60 MB"]
    for name, entry in header.items():
        begin, end = (8 + length + at for at in entry["data_offsets"])
        if found.get(name) != data[begin:end]:
            problems.append(f"{name} has changed")
    return problems


def check_tensorrt(folder):
    model = folder / "small"
    make_model(model, 64, 1, 96, 300)
    tools = folder / "bin"
    tools.mkdir()
    code, errors, _ = run("convert", model, folder / "a.plan", "--to", "tensorrt", path=str(tools))
    problems = []
    if code != 1 or "trtexec" not in errors or not (folder / "a.onnx").exists():
        problems.append(f"without a builder: exit {code}, {errors}")
    script = tools / "trtexec"
    script.write_text('#!/bin/sh\nfor a in "$@"; do printf "%s\\n" "$a"; done > "$(dirname "$0")/arguments"\n')
    script.chmod(0o755)
    odd = folder / "it's $HOME.plan"
    code, errors, _ = run("convert", model, odd, "--to", "tensorrt", path=f"{tools}:/usr/bin:/bin")
    given = (tools / "arguments").read_text().splitlines() if (tools / "arguments").exists() else []
    if code != 0 or given != [f"--onnx={odd.with_suffix('.onnx')}", f"--saveEngine={odd}"]:
        problems.append(f"the builder was called with {given}: exit {code}, {errors}")
    if errors.find("TensorRT") > errors.find("--saveEngine"):
        problems.append("what TensorRT does not take is not said first")
    return problems


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = folder / "model"
        make_model(model, WIDTH, LAYERS, FFN, VOCAB)
        problems = check_memory(folder, model) + check_gguf(folder)
        problems += check_safetensors(folder, model) + check_tensorrt(folder)
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
