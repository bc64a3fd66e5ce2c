"""Greedy tokens of an ONNX Runtime GenAI folder: tenon's beside onnxruntime-genai's.

Needs TENON_GENAI_MODEL (default: ort-int4 in $TENON_HOME/models), the binary, and a Python with onnx
and onnxruntime-genai; says what is missing and is skipped (exit 77) otherwise. The exporter asks for
activations rounded to 8 bits (accuracy_level 4), and both sides do that in their own way, so that near
ties fall to either side. So the folder is compared twice: with float activations on both sides
(accuracy_level 1, `tenon --reference`), where the tokens must be the same, and as it is, where the two
tokens at the first difference must have been a near tie.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PROMPTS = ["The capital of France is", "Once upon a time there was a small robot who",
           "def fibonacci(n):\n", "The three primary colours are", "Water boils at"]
TOKENS = 24
MARGIN = 0.25  # logits; the largest difference of two int8 roundings of activations that was seen


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def float_copy(folder, target):
    """The folder with the weights of all MatMulNBits met by float activations."""
    import onnx
    for path in pathlib.Path(folder).iterdir():
        shutil.copy(path, target)
    model = onnx.load(f"{folder}/model.onnx", load_external_data=False)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "accuracy_level":
                attribute.i = 1
    pathlib.Path(target, "model.onnx").write_bytes(model.SerializeToString())


def tenon_tokens(folder, prompt, flags):
    command = [os.environ["TENON_BINARY"], "run", "-m", folder, "-p", prompt, "-n", str(TOKENS),
               "--temp", "0", "--raw", "--json", "--ignore-eos", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return json.loads(done.stdout)["token_ids"]


def first_difference(og, numpy, model, prompt, ours):
    """None, or (step, our token, theirs, how far theirs was ahead in logits)."""
    ids = list(og.Tokenizer(model).encode(prompt))
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=len(ids) + TOKENS + 1, do_sample=False)
    generator = og.Generator(model, params)
    generator.append_tokens(ids)
    for step in range(TOKENS):
        generator.generate_next_token()
        # Of the step that chose this token: the model runs when the next one is asked for.
        logits = numpy.asarray(generator.get_output("logits"))
        logits = logits.reshape(-1, logits.shape[-1])[-1]
        token = int(generator.get_next_tokens()[0])
        if ours[step] != token:
            return step, ours[step], token, float(logits[token] - logits[ours[step]])
    return None


def compare(og, numpy, folder, model_folder, flags, margin):
    model = og.Model(model_folder)
    equal, good = 0, True
    for prompt in PROMPTS:
        found = first_difference(og, numpy, model, prompt, tenon_tokens(folder, prompt, flags))
        if found is None:
            equal += 1
            continue
        step, mine, theirs, gap = found
        print(f"{prompt!r} {flags}: token {step} is {mine}, not {theirs}, {gap:.4f} behind")
        good = good and gap <= margin
    print(f"{flags}: {equal} of {len(PROMPTS)} answers of {TOKENS} tokens equal")
    return equal, good


def main():
    try:
        import numpy
        import onnx  # noqa: F401
        import onnxruntime_genai as og
    except ImportError as error:
        skip(f"the Python package {error.name} is not installed")
    home = os.environ.get("TENON_HOME", os.path.expanduser("~/.tenon"))
    folder = os.environ.get("TENON_GENAI_MODEL", f"{home}/models/ort-int4")
    if not pathlib.Path(folder, "genai_config.json").exists():
        skip(f"no GenAI folder at {folder}")
    with tempfile.TemporaryDirectory() as copy:
        float_copy(folder, copy)
        equal, _ = compare(og, numpy, folder, copy, ["--reference"], 0.0)
    _, good = compare(og, numpy, folder, folder, [], MARGIN)
    sys.exit(0 if equal == len(PROMPTS) and good else 1)


main()
