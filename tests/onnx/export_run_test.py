"""Plain ONNX exports as models: `tenon run` on a folder of config.json, tokenizer.json and a decoder with
past_key_values gives onnxruntime's greedy tokens; a merged decoder (two branches of an If) does so too; and
graphs that are not what config.json says are refused.

The exports with random weights are in tests/data/onnx; smollm2.onnx of $TENON_ONNX_EXPORTS and the directory
$TENON_HOME/models/smollm2-hf are used where they are. Needs onnx, onnxruntime and numpy.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
DATA = HERE.parent / "data" / "onnx"
PROMPT = "bcdefg"
TOKENS = 12
# As in make_exports.py.
LLAMA = {"architectures": ["LlamaForCausalLM"], "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48,
         "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
         "tie_word_embeddings": False, "eos_token_id": 0}
GPT2 = {"architectures": ["GPT2LMHeadModel"], "vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4,
        "n_inner": None, "n_positions": 32, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new",
        "eos_token_id": 0}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def tenon(folder, prompt):
    """Token ids, or what the program said."""
    done = subprocess.run([os.environ["TENON_BINARY"], "run", str(folder), "-p", prompt, "-n", str(TOKENS),
                           "--temp", "0", "--raw", "--ignore-eos", "--reference", "--json"],
                          capture_output=True, text=True, timeout=300, check=False)
    return json.loads(done.stdout)["token_ids"] if done.returncode == 0 else done.stderr


def greedy(path, np, onnxruntime, ids):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    inputs = {value.name: value for value in session.get_inputs()}
    names = [value.name for value in session.get_outputs()]
    past, cache, tokens = 0, {}, []
    for _ in range(TOKENS):
        feeds = {"input_ids": np.array([ids]), "attention_mask": np.ones((1, past + len(ids)), np.int64),
                 "position_ids": np.arange(past, past + len(ids))[None]}
        for name, value in inputs.items():
            if name.startswith("past_key_values"):
                feeds[name] = cache.get(name, np.zeros([1, value.shape[1], 0, value.shape[3]], np.float32))
        found = dict(zip(names, session.run(None, feeds)))
        past += len(ids)
        cache = {name.replace("present", "past_key_values"): value for name, value in found.items()}
        ids = [int(np.argmax(found["logits"][0, -1]))]
        tokens.append(ids[0])
    return tokens


def write_texts(folder, config):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    vocabulary = {chr(48 + i): i for i in range(64)}
    (folder / "tokenizer.json").write_text(json.dumps(
        {"decoder": {"type": "Fuse"}, "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}))


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


def check_tiny(folder, np, onnx, onnxruntime):
    problems = []
    ids = [ord(letter) - 48 for letter in PROMPT]
    for name, config in (("llama-tiny", LLAMA), ("gpt2-tiny", GPT2)):
        path = DATA / f"{name}.onnx"
        wanted = greedy(path, np, onnxruntime, ids)
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
    export = pathlib.Path(os.environ.get("TENON_ONNX_EXPORTS", ""), "smollm2.onnx")
    texts = pathlib.Path(os.environ.get("TENON_HOME", os.path.expanduser("~/.tenon")), "models", "smollm2-hf")
    if not export.is_file() or not texts.is_dir():
        print("left out: smollm2.onnx of $TENON_ONNX_EXPORTS, or smollm2-hf in the store")
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
    wanted = greedy(export, np, onnxruntime, ids["ids"] if isinstance(ids, dict) else ids)
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
