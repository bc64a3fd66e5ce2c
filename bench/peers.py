#!/usr/bin/env python3
"""Tenon beside its peers in interleaved rounds: each round runs Tenon and every peer once, each in a
process of its own. A ratio is Tenon against that peer in the same round; above 1 Tenon is better.
First token is a 16-token prompt's, loading included.

  bench/peers.py --tenon build/release/bin/tenon --model FILE.gguf \\
      --peer llama.cpp=FILE.gguf --peer openvino=FILE.gguf --rounds 5 --out table.md"""
import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

FULL = {
    "prefill": [("prefill 512", 512), ("prefill 2048", 2048)],
    "decode": [("decode 128", 16), ("decode 128 after 512", 512), ("decode 128 after 2048", 2048)],
    "batch": [("2 sequences", 2), ("4 sequences", 4), ("8 sequences", 8), ("16 sequences", 16), ("32 sequences", 32)],
}
QUICK = {
    "prefill": [("prefill 512", 512)],
    "decode": [("decode 128", 16), ("decode 128 after 512", 512)],
    "batch": [("8 sequences", 8), ("16 sequences", 16)],
}
BATCH_TOKENS = 64


def peer_cases(table):
    cases = [{"name": name, "test": "prefill", "prompt": n, "tokens": 1, "sequences": 1} for name, n in table["prefill"]]
    cases += [{"name": name, "test": "decode", "prompt": n, "tokens": 128, "sequences": 1} for name, n in table["decode"]]
    cases += [{"name": name, "test": "batch", "prompt": 16, "tokens": BATCH_TOKENS, "sequences": n}
              for name, n in table["batch"]]
    return cases


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1] if "peer_bench" in command[1] else done.stdout)


def run_tenon(args, table):
    """A process for each case of one sequence, and one for the batches."""
    base = [args.tenon, "bench", args.model, "--json", "-r", "2", "-t", str(args.threads)]
    rates, report = {}, None
    for name, tokens in table["prefill"]:
        part = run(base + ["-p", str(tokens), "-n", "0"])
        report = report or part
        rates[name] = part["results"][0]["tok_s"]["median"]
    for name, context in table["decode"]:
        part = run(base + ["-p", "0", "-n", "128", "-d", str(context)])
        rates[name] = part["results"][0]["tok_s"]["median"]
    sequences = [str(n) for _, n in table["batch"]]
    part = run(base + ["-p", "0", "-n", str(BATCH_TOKENS), "-d", "16", "--parallel", *sequences])
    by_count = {row["sequences"]: row["tok_s"]["median"] for row in part["results"] if row["test"] == "batch"}
    rates.update({name: by_count[n] for name, n in table["batch"]})
    return {"engine": f"tenon {report['cpu_set']}", "version": report["cpu_set"], "load_s": report["load_s"],
            "first_token_s": report["first_token_s"], "peak_rss_bytes": report["peak_rss_bytes"], "results": rates}


def figures(report):
    values = dict(report["results"])
    values["first token, s"] = report["load_s"] + report["first_token_s"]
    values["peak memory, MB"] = report["peak_rss_bytes"] / 1e6
    return values


def lower_is_better(name):
    return name.endswith(", s") or name.endswith(", MB")


def spread(values):
    return f"{statistics.median(values):.3g} ({min(values):.3g}-{max(values):.3g})"


def write_table(rounds, peers):
    lines = ["| case | Tenon | " + " | ".join(f"{name} | ratio" for name in peers) + " |",
             "|---|---|" + "---|---|" * len(peers)]
    for name in rounds[0]["tenon"]:
        ours = [entry["tenon"][name] for entry in rounds]
        cells = [name, spread(ours)]
        for peer in peers:
            theirs = [entry[peer][name] for entry in rounds]
            ratios = [b / a if lower_is_better(name) else a / b for a, b in zip(ours, theirs)]
            mark = "" if statistics.median(ratios) >= 1 else " (behind)"
            cells += [f"{statistics.median(theirs):.3g}", spread(ratios) + mark]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def machine():
    name = next((line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                 if line.startswith("model name")), "unknown")
    return f"{name}, {os.cpu_count()} cores"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--peer", action="append", default=[], metavar="ENGINE[@LABEL]=MODEL[,PYTHON]")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="five rates in place of ten")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    table = QUICK if args.quick else FULL
    here = Path(__file__).parent
    peers = {}
    for text in args.peer:
        label, where = text.split("=", 1)
        model, python = (where.split(",", 1) + [sys.executable])[:2]
        peers[label] = [python, str(here / "peer_bench.py"), "--engine", label.split("@")[0], "--model", model,
                        "--threads", str(args.threads), "--cases", json.dumps(peer_cases(table))]
    rounds, versions = [], {}
    for index in range(args.rounds):
        entry = {}
        for label, command in [("tenon", None), *peers.items()]:
            report = run(command) if command else run_tenon(args, table)
            entry[label] = figures(report)
            versions[label] = report["version"]
        rounds.append(entry)
        print(f"round {index + 1}/{args.rounds}", file=sys.stderr)
    head = (f"{Path(args.model).name}, {args.threads} threads, {machine()}, {args.rounds} rounds; "
            + ", ".join(f"{label} {version}" for label, version in versions.items()))
    text = f"{head}\n\n{write_table(rounds, peers)}\n"
    print(text)
    if args.out:
        args.out.write_text(text)
        args.out.with_suffix(".json").write_text(json.dumps({"head": head, "rounds": rounds}, indent=1))


if __name__ == "__main__":
    main()
