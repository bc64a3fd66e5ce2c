"""`tenon convert`: ONNX accepted by onnx.checker with onnxruntime's greedy tokens equal to tenon's, int8
weights close to them, and GGUF read back by gguf-py with the same tokens.

Needs the model smollm2-135m-instruct in the store ($TENON_HOME) and the Python packages onnx, onnxruntime
and gguf; $TENON_HF_MODEL names a Hugging Face directory for GGUF out (default: smollm2-hf in the store's
models). Says what is missing and is skipped (exit 77).
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

MODEL = "smollm2-135m-instruct"
PROMPT = "The three primary colours are"
TOKENS = 12


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def tenon(*arguments):
    done = subprocess.run([os.environ["TENON_BINARY"], *arguments], capture_output=True, text=True,
                          timeout=600, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{arguments}: {done.stderr}")
    return done.stdout


def tenon_tokens(model, *flags):
    answer = tenon("run", "-m", str(model), "-p", PROMPT, "-n", str(TOKENS), "--temp", "0", "--raw",
                   "--ignore-eos", "--json", *flags)
    return json.loads(answer)["token_ids"]


def feeds(session, np, ids, past, cache):
    out = {"input_ids": np.array([ids]), "attention_mask": np.ones((1, past + len(ids)), np.int64),
           "position_ids": np.arange(past, past + len(ids))[None]}
    for value in session.get_inputs()[3:]:
        shape = [1, value.shape[1], 0, value.shape[3]]
        out[value.name] = cache.get(value.name, np.zeros(shape, np.float32))
    return out


def greedy(session, np, prompt):
    """Tokens, and the log-probabilities of each step."""
    ids, past, cache, tokens, rows = prompt, 0, {}, [], []
    names = [value.name for value in session.get_outputs()]
    for _ in range(TOKENS):
        found = dict(zip(names, session.run(None, feeds(session, np, ids, past, cache))))
        logits = found["logits"][0, -1].astype(np.float64)
        rows.append(logits - np.logaddexp.reduce(logits))
        past += len(ids)
        cache = {name.replace("present", "past_key_values"): value for name, value in found.items()
                 if name.startswith("present")}
        ids = [int(np.argmax(logits))]
        tokens.append(ids[0])
    return tokens, rows


def check_onnx(np, onnx, onnxruntime, folder, prompt):
    problems = []
    results = {}
    for name, flags in (("f32", []), ("int8", ["--int8"])):
        path = pathlib.Path(folder, f"{name}.onnx")
        tenon("convert", MODEL, str(path), *flags)
        onnx.checker.check_model(str(path), full_check=True)
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        results[name] = greedy(session, np, prompt)
        pathlib.Path(f"{path}.data").unlink()
    ours = tenon_tokens(MODEL, "--reference")
    if results["f32"][0] != ours:
        problems.append(f"onnxruntime's tokens {results['f32'][0]}, tenon's {ours}")
    first, second = results["f32"][1][0], results["int8"][1][0]
    divergence = float(np.sum(np.exp(first) * (first - second)))
    print(f"f32: {TOKENS} tokens compared; int8: divergence {divergence:.2e} at the first token")
    if not divergence < 0.02:
        problems.append(f"int8 weights diverge by {divergence}")
    return problems


def check_gguf(folder, directory):
    import gguf
    path = pathlib.Path(folder, "out.gguf")
    tenon("convert", str(directory), str(path))
    reader = gguf.GGUFReader(str(path))
    names = {tensor.name for tensor in reader.tensors}
    problems = [] if "token_embd.weight" in names else ["gguf-py finds no embedding"]
    wanted, found = tenon_tokens(directory), tenon_tokens(path)
    if wanted != found:
        problems.append(f"tokens of the GGUF file {found}, of the directory {wanted}")
    return problems


def main():
    try:
        import numpy as np
        import onnx
        import onnxruntime
    except ImportError as error:
        skip(f"the Python package {error.name} is not installed")
    listed = json.loads(tenon("list", "--json"))
    if MODEL not in [model["name"] for model in listed]:
        skip(f"the model {MODEL} is not in the store")
    prompt = json.loads(tenon("tokenize", "-m", MODEL, "-p", PROMPT, "--json"))
    prompt = prompt["ids"] if isinstance(prompt, dict) else prompt
    home = os.environ.get("TENON_HOME", os.path.expanduser("~/.tenon"))
    directory = pathlib.Path(os.environ.get("TENON_HF_MODEL", f"{home}/models/smollm2-hf"))
    with tempfile.TemporaryDirectory() as folder:
        problems = check_onnx(np, onnx, onnxruntime, folder, prompt)
        if (directory / "config.json").exists():
            problems += check_gguf(folder, directory)
        else:
            print(f"left out: GGUF, no Hugging Face directory at {directory}")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()
