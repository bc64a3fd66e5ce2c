"""Plain ONNX exports as models of every command: `tenon serve` answers two clients at once, in shared steps
of the scheduler, with onnxruntime's greedy tokens; `chat`, `perplexity` and `bench` take the folder too.

The exports with random weights are in tests/data/onnx. Needs onnxruntime and numpy.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

from tiny_exports import DATA, DECODERS, TEMPLATE, greedy, ids_of, skip, text_of, write_texts
from tiny_server import PROMPTS, TENON, TOKENS, check_server


def run(*arguments, stdin=None):
    done = subprocess.run([TENON, *map(str, arguments)], capture_output=True, text=True, input=stdin, timeout=120,
                          check=False)
    return done.stdout if done.returncode == 0 else f"exit {done.returncode}: {done.stderr}"


def check_commands(name, folder, np, onnxruntime):
    problems = []
    said = run("chat", folder, "-n", 4, "--temp", 0, "--reference", stdin="abc\n")
    wanted = text_of(greedy(DATA / f"{name}.onnx", np, onnxruntime, ids_of("abc:"), 4)).split("0")[0]
    if wanted not in said:
        problems.append(f"{name}, chat: {said!r}, {wanted!r} expected in it")
    text = folder / "text.txt"
    text.write_text("bcdefghijklmnbcdefgh" * 3)
    measured = run("perplexity", folder, "-f", text, "-c", 16, "--reference", "--json")
    ours = json.loads(measured) if measured.startswith("{") else {"ppl": measured}
    if not isinstance(ours["ppl"], float) or not 1.0 < ours["ppl"] < 1000.0:
        problems.append(f"{name}, perplexity: {ours['ppl']}")
    speed = run("bench", folder, "-p", 8, "-n", 4, "--json")
    if not speed.startswith("{") or not json.loads(speed)["results"]:
        problems.append(f"{name}, bench: {speed}")
    return problems


def main():
    try:
        import numpy as np
        import onnxruntime
    except ImportError as error:
        skip(f"the Python package {error.name} is not installed")
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        for name, config in DECODERS.items():
            model = pathlib.Path(folder, name)
            write_texts(model, config, TEMPLATE)
            shutil.copy(DATA / f"{name}.onnx", model / "model.onnx")
            wanted = [text_of(greedy(DATA / f"{name}.onnx", np, onnxruntime, ids_of(prompt), TOKENS))
                      for prompt in PROMPTS]
            problems += check_server(name, model, wanted)
            problems += check_commands(name, model, np, onnxruntime)
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()
