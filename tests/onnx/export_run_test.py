"""Plain ONNX exports as models: `tenon run` on a folder of config.json, tokenizer.json and a decoder with
past_key_values gives onnxruntime's greedy tokens; a merged decoder (two branches of an If) does so too; and
graphs that are not what config.json says are refused.

The exports with random weights are in tests/data/onnx; smollm2.onnx of $TENON_ONNX_EXPORTS (default: onnx-exports in the
store's models) and the directory smollm2-hf there are used where they are. Needs onnx, onnxruntime and numpy.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from tiny_exports import DATA, DECODERS, LLAMA, greedy, ids_of, skip, write_texts

PROMPT = "bcdefg"
TOKENS = 12


def tenon(folder, prompt):
    """Token ids, or what the program said."""
    done = subprocess.run([os.environ["TENON_BINARY"], "run", str(folder), "-p", prompt, "-n", str(TOKENS),
                           "--temp", "0", "--raw", "--ignore-eos", "--reference", "--json"],
                          capture_output=True, text=True, timeout=300, check=False)
    return json.loads(done.stdout)["token_ids"] if done.returncode == 0 else done.stderr


def merged(onnx, model):
    """The graph in both branches of an If, as optimum merges decoders; constants stay outside."""
    graph = model.graph
    branches = []
    for prefix in ("then", "else"):
        nodes = []
        made = {name for node in graph.node for name in node.output}
        outputs = []
        for node in graph.node:
            copy = onnx.NodeProto.FromString(node.SerializeToString())
            for names in (copy.input, copy.output):
                for i, name in enumerate(names):
                    if name in made:
                        names[i] = f"{prefix}/{name}"
            nodes.append(copy)
        for value in graph.output:
            copy = onnx.ValueInfoProto.FromString(value.SerializeToString())
            copy.name = f"{prefix}/{value.name}"
            outputs.append(copy)
        branches.append(onnx.helper.make_graph(nodes, prefix, [], outputs))
    flag = onnx.helper.make_tensor_value_info("use_cache_branch", onnx.TensorProto.BOOL, [1])
    node = onnx.helper.make_node("If", ["use_cache_branch"], [value.name for value in graph.output],
                                 then_branch=branches[0], else_branch=branches[1])
    whole = onnx.helper.make_graph([node], "merged", [*graph.input, flag], graph.output, graph.initializer)
    return onnx.helper.make_model(whole, opset_imports=model.opset_import, ir_version=model.ir_version)


def scaled_otherwise(onnx, model):
    """The graph with another number in place of 1/sqrt(8), or of its root, in all attentions."""
    count = 0
    tensors = list(model.graph.initializer)
    tensors += [attribute.t for node in model.graph.node for attribute in node.attribute if attribute.name == "value"]
    for tensor in tensors:
        if tensor.data_type != onnx.TensorProto.FLOAT or tensor.dims:
            continue
        value = float(onnx.numpy_helper.to_array(tensor))
        if min(abs(value - 8 ** -0.5), abs(value - 8 ** -0.25), abs(value - 8 ** 0.5)) < 1e-5:
            changed = onnx.helper.make_tensor(tensor.name, tensor.data_type, [], [value * 1.25])
            tensor.CopyFrom(changed)
            count += 1
    return count


def check_other_attention(folder, onnx):
    """An export whose attention is not the family's is refused: what runs is the family's."""
    problems = []
    for name, config in DECODERS.items():
        for form in ("", "-merged"):
            model = onnx.load(DATA / f"{name}.onnx")
            if scaled_otherwise(onnx, model) == 0:
                print(f"{name}: the scale is no constant of its own")
                continue
            wrong = folder / f"scale-{name}{form}"
            write_texts(wrong, config)
            onnx.save(merged(onnx, model) if form else model, wrong / "model.onnx")
            found = tenon(wrong, PROMPT)
            if not isinstance(found, str) or "scale" not in found:
                problems.append(f"{name}{form} with another scale: {found}")
    return problems


# Operator, attribute, another value, and a word of the refusal.
OTHERWISE = [("Attention", "scale", 0.5, "scale"), ("Attention", "softcap", 30.0, "softcap"),
             ("Attention", "kv_num_heads", 1, "heads"), ("RMSNormalization", "epsilon", 1e-3, "epsilon"),
             ("RotaryEmbedding", "interleaved", 1, "rotation"), ("RotaryEmbedding", "rotary_embedding_dim", 4, "rotated")]


def check_own_operators(folder, np, onnx):
    """Operators of set 23 that say other things than config.json are refused."""
    problems = []

    def expect_refusal(what, model, word):
        wrong = folder / f"other-{what}"
        write_texts(wrong, LLAMA)
        onnx.save(model, wrong / "model.onnx")
        found = tenon(wrong, PROMPT)
        if not isinstance(found, str) or word not in found:
            problems.append(f"operator set 23, {what}: {found}")

    for op, name, value, word in OTHERWISE:
        model = onnx.load(DATA / "llama-opset23-tiny.onnx")
        node = [node for node in model.graph.node if node.op_type == op][-1]
        kept = [attribute for attribute in node.attribute if attribute.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, onnx.helper.make_attribute(name, value)])
        expect_refusal(f"{op}-{name}", model, word)
    model = onnx.load(DATA / "llama-opset23-tiny.onnx")
    for tensor in model.graph.initializer:
        if tensor.name in ("cos_cache", "sin_cache"):
            angles = np.arange(64, dtype=np.float32)[:, None] * 500.0 ** -(np.arange(0, 8, 2) / 8)[None]
            values = (np.cos if tensor.name == "cos_cache" else np.sin)(angles).astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    expect_refusal("tables", model, "turns otherwise")
    model = onnx.load(DATA / "llama-opset23-tiny.onnx")
    for node in model.graph.node:
        if node.op_type == "Attention":
            node.input[3] = ""
    expect_refusal("mask", model, "no mask")
    return problems


def check_tiny(folder, np, onnx, onnxruntime):
    problems = []
    for name, config in DECODERS.items():
        path = DATA / f"{name}.onnx"
        wanted = greedy(path, np, onnxruntime, ids_of(PROMPT), TOKENS)
        write_texts(folder / name, config)
        shutil.copy(path, folder / name / "model.onnx")
        write_texts(folder / f"{name}-merged", config)
        (folder / f"{name}-merged" / "onnx").mkdir()
        onnx.save(merged(onnx, onnx.load(path)),
                  folder / f"{name}-merged" / "onnx" / "decoder_model_merged.onnx")
        for form in (name, f"{name}-merged"):
            found = tenon(folder / form, PROMPT)
            if found != wanted:
                problems.append(f"{form}: {found}, onnxruntime's {wanted}")
    problems += check_other_attention(folder, onnx) + check_own_operators(folder, np, onnx)
    for key, value, word in (("num_hidden_layers", 3, "layers"), ("vocab_size", 65, "config.json"),
                             ("architectures", ["Gemma2ForCausalLM"], "Gemma2"),
                             ("intermediate_size", 40, "48")):
        wrong = folder / f"wrong-{key}"
        write_texts(wrong, LLAMA | {key: value})
        shutil.copy(DATA / "llama-tiny.onnx", wrong / "model.onnx")
        found = tenon(wrong, PROMPT)
        if not isinstance(found, str) or word not in found:
            problems.append(f"{key} {value}: {found}")
    return problems


def check_smollm2(folder, np, onnxruntime):
    models = pathlib.Path(os.environ.get("TENON_HOME", os.path.expanduser("~/.tenon")), "models")
    export = pathlib.Path(os.environ.get("TENON_ONNX_EXPORTS", models / "onnx-exports"), "smollm2.onnx")
    texts = models / "smollm2-hf"
    if not export.is_file() or not texts.is_dir():
        print(f"left out: {export} or {texts} is missing")
        return []
    model = folder / "smollm2"
    model.mkdir()
    (model / "model.onnx").symlink_to(export.resolve())
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(texts / name, model / name)
    prompt = "The three primary colours are"
    done = subprocess.run([os.environ["TENON_BINARY"], "tokenize", "-m", str(texts), "-p", prompt, "--json"],
                          capture_output=True, text=True, check=True)
    ids = json.loads(done.stdout)
    wanted = greedy(export, np, onnxruntime, ids["ids"] if isinstance(ids, dict) else ids, TOKENS)
    found = tenon(model, prompt)
    return [] if found == wanted else [f"smollm2: {found}, onnxruntime's {wanted}"]


def main():
    try:
        import numpy as np
        import onnx
        import onnxruntime
    except ImportError as error:
        skip(f"the Python package {error.name} is not installed")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        problems = check_tiny(folder, np, onnx, onnxruntime) + check_smollm2(folder, np, onnxruntime)
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()
