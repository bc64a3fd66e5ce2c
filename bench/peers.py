#!/usr/bin/env python3
"""Tenon beside its peers: any list of models, in interleaved rounds, within a number of minutes.

  bench/peers.py --tenon build/release/bin/tenon --python .venv/bin/python --minutes 30 --out docs/peers.md \\
      --model "SmolLM2 Q4_1=smollm2.gguf" --model "SmolLM2 F16=smollm2-f16.gguf"

Each round runs every model once with Tenon and once with every peer, each in a process of its own. A
ratio is Tenon against that peer in the same round; above 1 Tenon is better. Rates are tok/s. First
token is a 16-token prompt's: for Tenon the whole process from its start, for a peer from loading on,
without starting Python or its library. Peak memory is of that same run, for a peer less what Python
and packages that are no part of the engine had before. What does not fit into the minutes is left out and shown as "-".

Engines that read GGUF files (llama.cpp, openvino) are given as --peer NAME and get the model's file;
for others say --peer "NAME:MODEL LABEL=FOLDER". --python PATH is the interpreter that has them, and
--python ENGINE=PATH that of one. The tables go to --out as Markdown, all numbers to
the same name with .json; both are rewritten after every run."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
PROMPT = "The quick brown fox jumps over the lazy dog and then runs away from us"
START = ["first token, s", "peak memory, MB"]
CONTEXTS = [0, 512, 2048, 8000]
SEQUENCES = [2, 4, 8, 16, 32]
CELLS = (["prefill 512", "prefill 2048"] + [f"decode after {n}" for n in CONTEXTS]
         + [f"{n} sequences" for n in SEQUENCES] + START)
DECODE_TOKENS, BATCH_TOKENS = 64, 32


def log(text):
    print(text, file=sys.stderr, flush=True)


def run_process(command, seconds):
    """(output, wall seconds, peak bytes), or None when it failed or took longer than `seconds`."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            output, errors = process.communicate(timeout=max(5, seconds))
        except subprocess.TimeoutExpired:
            process.kill()
            return None
    if process.returncode:
        log(f"{' '.join(command)} failed:\n{errors[-1500:]}")
        return None
    return output, time.perf_counter() - start


def start_of_tenon(args, model):
    """The process as a user starts it, with packed weights left by an earlier start."""
    command = [args.tenon, "run", model, "--raw", "-p", PROMPT, "-n", "1", "--temp", "0", "-q", "-t", str(args.threads)]
    subprocess.run(command, capture_output=True, check=False)
    seconds, peak = [], 0
    for _ in range(3):
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # waited for by wait4
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            return {}
        seconds.append(time.perf_counter() - begin)
        peak = max(peak, usage.ru_maxrss * 1024)
    return {START[0]: statistics.median(seconds), START[1]: peak / 1e6}


def tenon_cells(args, model, deadline):
    """Cells from most to least wanted, as long as there is time."""
    cells = start_of_tenon(args, model)
    bench = [args.tenon, "bench", model, "--json", "-t", str(args.threads)]
    jobs = [(["-r", "2", "-p", "512", "-n", "0"], "prefill 512"),
            (["-r", "2", "-p", "0", "-n", str(DECODE_TOKENS), "-d", "0", "512", "2048"], "decode"),
            (["-r", "1", "-p", "0", "-n", str(BATCH_TOKENS), "-d", "16", "--parallel", *map(str, SEQUENCES)], "batch"),
            (["-r", "1", "-p", "2048", "-n", "0"], "prefill 2048"),
            (["-r", "1", "-p", "0", "-n", str(DECODE_TOKENS), "-d", "8000"], "decode")]
    for flags, kind in jobs:
        left = deadline - time.monotonic()
        done = run_process(bench + flags, left) if left > 5 else None
        if done is None:
            continue
        for row in json.loads(done[0])["results"]:
            rate = row["tok_s"]["median"]
            if row["test"] == "batch":
                cells[f"{row['sequences']} sequences"] = rate
            elif kind == "decode":
                cells[f"decode after {row['context']}"] = rate
            else:
                cells[kind] = rate
    return cells


def peer_cells(args, peer, model, deadline):
    base = [args.pythons.get(peer, args.pythons[""]), str(HERE / "peer_bench.py"), "--engine", peer, "--model", model, "--threads", str(args.threads)]
    cells = {}
    done = run_process(base + ["--cases", "[]"], deadline - time.monotonic())
    if done is not None:
        report = json.loads(done[0].splitlines()[-1])
        cells = {START[0]: report["load_s"] + report["first_token_s"], START[1]: report["peak_rss_bytes"] / 1e6}
        args.versions[peer] = report["version"]
    cases = [{"name": "prefill 512", "test": "prefill", "prompt": 512, "tokens": 1, "sequences": 1}]
    cases += [{"name": f"decode after {n}", "test": "decode", "prompt": max(16, n), "tokens": DECODE_TOKENS,
               "sequences": 1} for n in CONTEXTS[:2]]
    cases += [{"name": f"{n} sequences", "test": "batch", "prompt": 16, "tokens": BATCH_TOKENS, "sequences": n}
              for n in (8, 16, 2, 4, 32)]
    cases += [{"name": "prefill 2048", "test": "prefill", "prompt": 2048, "tokens": 1, "sequences": 1}]
    cases += [{"name": f"decode after {n}", "test": "decode", "prompt": n, "tokens": DECODE_TOKENS, "sequences": 1}
              for n in CONTEXTS[2:]]
    left = deadline - time.monotonic()
    done = run_process(base + ["--cases", json.dumps(cases), "--seconds", str(int(left)), "--repeats", "1"], left + 30)
    if done is not None:
        cells.update(json.loads(done[0].splitlines()[-1])["results"])
    return cells


def lower_is_better(name):
    return name in START


def spread(values):
    middle = f"{statistics.median(values):.3g}"
    return middle if len(values) < 2 else f"{middle} ({min(values):.3g}-{max(values):.3g})"


def table(rounds, label, peers):
    """Of one model; a ratio only of rounds in which both engines have the cell."""
    lines = ["| case | Tenon | " + " | ".join(f"{name} | ratio" for name in peers) + " |",
             "|---|---|" + "---|---|" * len(peers)]
    entries = [entry[label] for entry in rounds if label in entry]
    for name in CELLS:
        ours = [entry["tenon"][name] for entry in entries if name in entry.get("tenon", {})]
        if not ours:
            continue
        row = [name, spread(ours)]
        for peer in peers:
            pairs = [(entry["tenon"][name], entry[peer][name]) for entry in entries
                     if name in entry.get("tenon", {}) and name in entry.get(peer, {})]
            ratios = [b / a if lower_is_better(name) else a / b for a, b in pairs]
            behind = " (behind)" if ratios and statistics.median(ratios) < 1 else ""
            row += [spread([b for _, b in pairs]), spread(ratios) + behind] if pairs else ["-", "-"]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def machine():
    name = next((line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                 if line.startswith("model name")), "unknown")
    return f"{name}, {os.cpu_count()} CPUs"


def write(args, rounds, models, peers):
    versions = ", ".join(f"{peer} {version}" for peer, version in args.versions.items())
    head = f"{machine()}, {args.threads} threads, {len(rounds)} rounds; {versions}"
    parts = [head] + [f"### {label}\n\n{table(rounds, label, peers)}" for label in models]
    text = "\n\n".join(parts) + "\n"
    if args.out:
        args.out.write_text(text, encoding="utf-8")
        facts = {"head": head, "models": models, "rounds": rounds, "doctor": args.doctor}
        args.out.with_suffix(".json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
    return text


def measure(args, models, peers):
    end = time.monotonic() + args.minutes * 60
    engines = ["tenon", *peers]
    left = args.rounds * len(models) * len(engines)
    rounds = []
    for index in range(args.rounds):
        if time.monotonic() > end - 10:
            break
        rounds.append({})
        for label, file in models.items():
            for engine in engines:
                # An equal share of the time for each run that is left.
                now = time.monotonic()
                deadline = now + max(0, end - now) / left
                left -= 1
                model = peers.get(engine, {}).get(label, file)
                cells = tenon_cells(args, file, deadline) if engine == "tenon" else peer_cells(args, engine, model, deadline)
                rounds[-1].setdefault(label, {})[engine] = cells
                write(args, rounds, models, peers)
                log(f"round {index + 1}/{args.rounds} {label} {engine}: {len(cells)} cells, "
                    f"{time.monotonic() - now:.0f} s")
    return rounds


def doctor(args, models):
    """What the machine could do with each model's bytes, for the roofline."""
    facts = {}
    for label, file in models.items():
        done = run_process([args.tenon, "doctor", file, "--json"], 120)
        if done is not None:
            facts[label] = json.loads(done[0])["model"]
    return facts


def parse_peers(texts):
    """{engine: {model label: folder}}; empty where the engine reads the model's file."""
    peers = {}
    for text in texts:
        name, _, rest = text.partition(":")
        folders = peers.setdefault(name, {})
        if rest:
            label, folder = rest.split("=", 1)
            folders[label] = folder
    return peers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--model", action="append", required=True, metavar="LABEL=FILE")
    parser.add_argument("--peer", action="append", metavar="ENGINE[:LABEL=FOLDER]", help="default: llama.cpp")
    parser.add_argument("--python", action="append", default=[], metavar="[ENGINE=]PATH")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    models = dict(text.split("=", 1) for text in args.model)
    for file in models.values():
        if not Path(file).exists():
            sys.exit(f"no such model: {file}")
    peers = parse_peers(args.peer or ["llama.cpp"])
    args.pythons = {"": sys.executable}
    for text in args.python:
        name, equal, path = text.partition("=")
        args.pythons[name if equal else ""] = path if equal else text
    args.versions = {}
    args.doctor = doctor(args, models)
    rounds = measure(args, models, peers)
    print(write(args, rounds, models, peers))


if __name__ == "__main__":
    main()
