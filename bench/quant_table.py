#!/usr/bin/env python3
"""Quantizers beside each other: perplexity, divergence from the float model, bytes and speed, all from one F16
file. Rows of llama.cpp are made by its own quantizer and run by Tenon, so that kernels do not differ.

  bench/quant_table.py --tenon build/release/bin/tenon --source F16.gguf --calibration OTHER.txt --text TEST.txt \\
      --work FOLDER --out table.md [--rows w4 w8a8 w4a8 outliers] [--chunks 12] [--speed] [--emulate] [--llama-cpp]

Files in the work folder are used again; delete them to make them anew. Needs the Python package gguf, and
llama_cpp for --llama-cpp.
"""
import argparse
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LLAMA_TYPES = {"Q4_0": 2, "Q4_K_M": 15}

# name -> (arguments of `tenon quantize`, whether it is calibrated)
W4 = {
    "RTN": (["--method", "rtn", "--w-bits", "4"], False),
    "AWQ": (["--method", "awq", "--w-bits", "4"], True),
    "GPTQ": (["--method", "gptq", "--w-bits", "4"], True),
    "HAQ": (["--method", "haq", "--w-bits", "4"], True),
    "k-quant Q4_K_M": (["--method", "k-quant", "--w-bits", "4"], False),
    "HAQ Q4_K_M": (["--method", "haq", "--type", "q4_k_m"], True),
}
W8A8 = {
    "RTN": (["--method", "rtn", "--a-bits", "8"], False),
    "SmoothQuant 0.5": (["--method", "smoothquant", "--alpha", "0.5", "--a-bits", "8"], True),
    "SmoothQuant 0.65": (["--method", "smoothquant", "--alpha", "0.65", "--a-bits", "8"], True),
    "SmoothQuant 0.8": (["--method", "smoothquant", "--alpha", "0.8", "--a-bits", "8"], True),
    "HAQ": (["--method", "haq", "--a-bits", "8"], True),
}
W4A8 = {name: (arguments + ["--a-bits", "8"], calibrated)
        for name, (arguments, calibrated) in W4.items() if name in ("RTN", "AWQ", "GPTQ", "HAQ")}


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def measure(args, model, base, a8):
    command = [args.tenon, "perplexity", model, "-f", args.text, "--chunks", args.chunks, "--kl-base", base, "--json"]
    # Files for 8-bit activations say so themselves; --emulate computes in float what their kernels should give.
    result = json.loads(run(command + (["--a8-per-token"] if a8 and args.emulate else [])))
    if args.speed:
        bench = json.loads(run([args.tenon, "bench", model, "--json", "-p", "512", "-n", "128", "-r", "3"]))
        result["tok_s"] = {row["test"]: row["tok_s"]["median"] for row in bench["results"]}
    return result


def quantize(args, source, target, arguments, calibrated):
    if not target.exists():
        calibration = ["--calib-data", args.calibration, "--calib-tokens", args.tokens] if calibrated else []
        run([args.tenon, "quantize", source, target, *arguments, *calibration])


def llama_quantize(source, target, number):
    import llama_cpp
    if target.exists():
        return
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = number
    code = llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), params)
    if code:
        sys.exit(f"llama_model_quantize: {code}")


def section(args, title, source, rows, a8):
    """One table: all rows from `source`, against `source` itself."""
    tag = title.split()[0].lower() + ("-outliers" if "outliers" in title else "")
    base = args.work / f"{source.stem}-base.bin"
    if not base.exists():
        run([args.tenon, "perplexity", source, "-f", args.text, "--chunks", args.chunks, "--save-base", base, "--json"])
    found = []
    for name, (arguments, calibrated) in rows.items():
        target = args.work / f"{tag}-{name.replace(' ', '-').lower()}.gguf"
        if arguments[0] == "llama.cpp":
            llama_quantize(source, target, LLAMA_TYPES[arguments[1]])
        else:
            quantize(args, source, target, arguments, calibrated)
        found.append((name, target.stat().st_size, measure(args, target, base, a8)))
        print(name, found[-1][2], file=sys.stderr, flush=True)
    lines = [f"### {title}", "", "| quantizer | PPL | KL | best token equal | delta NLL (95%) | bytes | prefill, decode |",
             "|---|---|---|---|---|---|---|"]
    for name, size, r in found:
        low, high = r["delta_nll_ci95"]
        speed = ", ".join(f"{r['tok_s'][test]:.0f}" for test in ("prefill", "decode")) if "tok_s" in r else "-"
        lines.append(f"| {name} | {r['ppl']:.3f} | {r['kl_mean']:.5f} | {100 * r['top1']:.1f}% | "
                     f"{r['delta_nll']:+.4f} ({low:+.4f}, {high:+.4f}) | {size:,} | {speed} |")
    return lines + ["", f"Float model: perplexity {found[0][2]['base_ppl']:.3f}.", ""]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--tenon", "--source", "--calibration", "--text", "--work", "--out"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--rows", nargs="+", default=["w4", "w8a8", "w4a8", "outliers"])
    parser.add_argument("--chunks", default="12")
    parser.add_argument("--tokens", default="32768")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--emulate", action="store_true")
    parser.add_argument("--llama-cpp", action="store_true")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    w4 = dict(W4)
    if args.llama_cpp:
        w4.update({f"llama.cpp {name}": (["llama.cpp", name], False) for name in LLAMA_TYPES})
    lines = []
    if "w4" in args.rows:
        lines += section(args, "W4 (activations as Tenon has them)", args.source, w4, False)
    if "w8a8" in args.rows:
        lines += section(args, "W8A8 (one activation scale a token)", args.source, W8A8, True)
    if "w4a8" in args.rows:
        lines += section(args, "W4A8 (one activation scale a token)", args.source, W4A8, True)
    if "outliers" in args.rows:
        outliers = args.work / "outliers.gguf"
        if not outliers.exists():
            run([sys.executable, HERE / "make_outliers.py", args.source, outliers])
        lines += section(args, "W8A8 with outliers (one activation scale a token)", outliers, W8A8, True)
    args.out.write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
