"""torch.onnx exports run by tenon, with and without its passes, beside onnxruntime.

The small models with random weights are in tests/data/onnx; those of real ones (SmolLM2, MiniLM) are taken
from $TENON_ONNX_EXPORTS (default: onnx-exports in the store's models), which make_exports.py fills. Outputs
must be equal within float's precision; the passes must take away at least 30% of the kernel launches and 20%
of the peak activation memory, and in decoders some FLOPs: a causal mask hides keys. `tenon inspect` must
print the same, and what each pass took away must add up to it. Where only the last row of a decoder's logits is
wanted, at least 30% of the FLOPs must go (of SmolLM2, whose prompt is short here, 20%).
"""
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
FEWER_LAUNCHES = 0.30
LESS_MEMORY = 0.20
FEWER_FLOPS = 0.30
FEWER_FLOPS_OF = {"smollm2": 0.20}
# Operator set 23 has attention, RMS norms and rotations as operators: nothing is decomposed.
WHOLE = {"qwen3-dynamo-tiny", "llama-opset23-tiny", "qwen3-opset23-tiny"}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def values_for(session, np, batch, sequence, past, seed):
    """Random inputs of the declared shapes."""
    rng = np.random.default_rng(seed)
    sizes = {"batch": batch, "sequence": sequence, "past": past, "total": past + sequence}
    out = {}
    for value in session.get_inputs():
        # The newer exporter has names of its own for sums of dimensions.
        shape = [sizes.get(d, past + sequence) if isinstance(d, str) else d for d in value.shape]
        if value.name == "attention_mask":
            mask = np.ones(shape, np.int64)
            mask[-1, 0] = 0
            out[value.name] = mask
        elif value.name == "position_ids":
            out[value.name] = np.broadcast_to(np.arange(past, past + sequence), shape).copy()
        elif value.name == "token_type_ids":
            out[value.name] = np.zeros(shape, np.int64)
        elif "int64" in value.type:
            out[value.name] = rng.integers(0, 60, shape)
        else:
            out[value.name] = rng.standard_normal(shape).astype(np.float32)
    return out


def largest_difference(np, mine, theirs):
    # NumPy's maximum of a NaN is a NaN; Python's passes over it.
    return np.max([np.max(np.abs(a.astype(np.float64) - b) / (1.0 + np.abs(b)), initial=0.0)
                   for a, b in zip(mine, theirs, strict=True)])


def check(path, np, onnxruntime, session_class):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    reference = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    sessions = {level: session_class(path=str(path), level=level) for level in (0, 3)}
    cases = [(1, 8, 0), (2, 5, 3), (1, 1, 9)]
    worst, stats = 0.0, {}
    for seed, (batch, sequence, past) in enumerate(cases):
        inputs = values_for(reference, np, batch, sequence, past, seed)
        wanted = reference.run(None, inputs)
        for level, session in sessions.items():
            got = session.run(inputs)
            shapes = [a.shape for a in got] == [b.shape for b in wanted]
            worst = np.maximum(worst, largest_difference(np, got, wanted) if shapes else np.inf)
            stats.setdefault(level, session.stats())
    launches = 1 - stats[3]["launches"] / stats[0]["launches"]
    memory = 1 - stats[3]["peak_bytes"] / stats[0]["peak_bytes"]
    print(f"{path.name}: difference {worst:.1e}; launches {stats[0]['launches']} -> "
          f"{stats[3]['launches']} ({-launches:.0%}), FLOPs {stats[0]['flops']:.3g} -> "
          f"{stats[3]['flops']:.3g}, peak {stats[0]['peak_bytes']} -> {stats[3]['peak_bytes']} "
          f"({-memory:.0%})")
    if path.stem in WHOLE:
        return worst < 1e-3
    hidden = stats[3]["flops"] < stats[0]["flops"] or not any(name.startswith("past") for name in sessions[3].names)
    if not hidden:
        print(f"{path.name}: keys behind the mask are multiplied")
    return (worst < 1e-3 and launches >= FEWER_LAUNCHES and memory >= LESS_MEMORY and hidden and
            check_inspect(path) and check_last_row(path, [o.name for o in reference.get_outputs()]))


def check_last_row(path, outputs):
    if "logits" not in outputs:
        return True
    report = inspect(path, "--dim", "batch=2", "--dim", "sequence=32", "--dim", "past=0", "--last-row", "logits")
    if report is None:
        return False
    fewer = 1 - report["O3"]["flops"] / report["O0"]["flops"]
    narrow = [step for step in report["passes"] if step["pass"] == "narrow_rows"][0]
    print(f"{path.name}: the last row of 32 takes {fewer:.0%} fewer FLOPs")
    return (report["largest_relative_difference"] < 1e-3 and fewer >= FEWER_FLOPS_OF.get(path.stem, FEWER_FLOPS) and
            narrow["after"]["flops"] < narrow["before"]["flops"])


COUNTS = ("nodes", "kernel_launches", "flops", "peak_activation_bytes")


def inspect(path, *flags):
    command = [os.environ["TENON_BINARY"], "inspect", str(path), "--json", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        print(f"{path.name}: inspect: {done.stderr}")
        return None
    return json.loads(done.stdout)


def check_inspect(path):
    """The figures of each pass begin where the ones before it end."""
    report = inspect(path, "--dim", "batch=1", "--dim", "sequence=6", "--dim", "past=2")
    if report is None:
        return False
    at, good = report["shared_memory"], True
    for step in report["passes"]:
        good = good and all(step["before"][key] == at[key] for key in COUNTS)
        at = step["after"]
    good = good and all(at[key] == report["O3"][key] for key in COUNTS)
    fused = [step for step in report["passes"] if step["pass"] == "fuse_attention"]
    good = good and fused[0]["after"]["kernel_launches"] < fused[0]["before"]["kernel_launches"]
    if not good:
        print(f"{path.name}: inspect's passes don't add up: {report}")
    return good


def main():
    try:
        import ml_dtypes  # noqa: F401
        import numpy as np
        import onnxruntime
    except ImportError as error:
        skip(f"the Python package {error.name} is not installed")
    import tenon_onnx
    paths = sorted((HERE.parent / "data" / "onnx").glob("*.onnx"))
    home = os.environ.get("TENON_HOME", os.path.expanduser("~/.tenon"))
    more = pathlib.Path(os.environ.get("TENON_ONNX_EXPORTS", f"{home}/models/onnx-exports"))
    real = [more / name for name in ("minilm.onnx", "smollm2.onnx")]
    for path in real:
        if not path.exists():
            print(f"left out: {path} is missing (make_exports.py makes it)")
    paths += [path for path in real if path.exists()]
    good = [check(path, np, onnxruntime, tenon_onnx.Session) for path in paths]
    sys.exit(0 if good and all(good) else 1)


main()
