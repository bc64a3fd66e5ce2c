#!/usr/bin/env python3
"""Tenon beside llama.cpp on one model: interleaved rounds, medians, ratios with their spread.

Cold start is loading plus a first token of a 16-token prompt, inside the process. llama.cpp's peak
memory is without what the Python process had before it loaded the library; Tenon's is the whole
process. A ratio above 1 means that Tenon is better."""
import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def figures(report):
    rates = {row["test"]: row["tok_s"]["median"] for row in report["results"]}
    return {
        "prefill 512, tok/s": rates["prefill"],
        "decode 128, tok/s": rates["decode"],
        "cold start, s": report["load_s"] + report["first_token_s"],
        "peak memory, MB": report["peak_rss_bytes"] / 1e6,
    }


def better_ratio(name, ours, theirs):
    return ours / theirs if name.endswith("tok/s") else theirs / ours


def table(rounds):
    lines = ["| figure | Tenon | llama.cpp | ratio (spread) |", "|---|---|---|---|"]
    for name in rounds[0][0]:
        ours = [pair[0][name] for pair in rounds]
        theirs = [pair[1][name] for pair in rounds]
        ratios = sorted(better_ratio(name, a, b) for a, b in zip(ours, theirs))
        lines.append(
            f"| {name} | {statistics.median(ours):.4g} | {statistics.median(theirs):.4g} | "
            f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    here = Path(__file__).parent
    peer = [sys.executable, str(here / "llama_bench.py"), "--model", args.model, "--threads", str(args.threads)]
    ours = [args.tenon, "bench", args.model, "--json", "-r", "2", "-t", str(args.threads)]
    rounds = []
    for index in range(args.rounds):
        pair = (run(ours), run(peer))
        rounds.append(tuple(figures(report) for report in pair))
        print(f"round {index + 1}/{args.rounds}", file=sys.stderr)
    text = f"{Path(args.model).name}, {args.threads} threads, {pair[0]['cpu_set']}, {args.rounds} rounds\n\n{table(rounds)}"
    print(text)
    if args.out:
        args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
