"""`tenon convert` to GGUF, run by llama.cpp: the greedy tokens of the file that it writes from a Hugging Face
directory are tenon's.

Needs the directory $TENON_HF_MODEL (default: smollm2-hf in the store's models) and the Python package
llama_cpp; says what is missing and is skipped (exit 77). Both multiply float32 weights; a near tie may fall
to either side, so at the first difference the two tokens must have been one.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

PROMPTS = ["The three primary colours are", "Water boils at", "def fibonacci(n):\n"]
TOKENS = 16
MARGIN = 0.02  # logits


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def tenon(*arguments):
    done = subprocess.run([os.environ["TENON_BINARY"], *map(str, arguments)], capture_output=True, text=True,
                          timeout=600, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{arguments}: {done.stderr}")
    return done.stdout


def first_difference(llama, ids, ours):
    """None, or the step, both tokens, and by how much llama.cpp's was ahead."""
    llama.reset()
    llama.eval(ids)
    for step, token in enumerate(ours):
        logits = llama.scores[llama.n_tokens - 1]
        best = int(logits.argmax())
        if best != token:
            return step, token, best, float(logits[best] - logits[token])
        llama.eval([token])
    return None


def main():
    try:
        import llama_cpp
    except ImportError as error:
        skip(f"the Python package {error.name} is not installed")
    home = os.environ.get("TENON_HOME", os.path.expanduser("~/.tenon"))
    directory = pathlib.Path(os.environ.get("TENON_HF_MODEL", f"{home}/models/smollm2-hf"))
    if not (directory / "config.json").exists():
        skip(f"no Hugging Face directory at {directory}")
    problems, equal = [], 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "out.gguf")
        tenon("convert", directory, path)
        llama = llama_cpp.Llama(str(path), n_ctx=128, n_threads=2, logits_all=True, verbose=False)
        for prompt in PROMPTS:
            ids = json.loads(tenon("tokenize", "-m", path, "-p", prompt, "--json"))
            ids = ids["ids"] if isinstance(ids, dict) else ids
            theirs = llama.tokenize(prompt.encode(), add_bos=False, special=True)
            if ids != theirs:
                problems.append(f"{prompt!r} is {ids}, llama.cpp's {theirs}")
            ours = json.loads(tenon("run", "-m", path, "-p", prompt, "-n", TOKENS, "--temp", 0, "--raw",
                                    "--ignore-eos", "--reference", "--json"))["token_ids"]
            if len(ours) != TOKENS:
                problems.append(f"{prompt!r}: {len(ours)} tokens, {TOKENS} asked for")
            found = first_difference(llama, ids, ours)
            equal += found is None
            if found is not None and found[3] > MARGIN:
                problems.append(f"{prompt!r}: token {found[0]} is {found[1]}, llama.cpp's {found[2]} is "
                                f"{found[3]:.3f} ahead")
    print(f"{equal} of {len(PROMPTS)} answers of {TOKENS} tokens are llama.cpp's")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems or equal == 0 else 0)


main()
