#!/usr/bin/env python3
"""Decode speed beside a process that does nothing but compute, as a share of the quiet speed, for
Tenon and llama.cpp in alternating rounds.

  bench/busy_neighbour.py --tenon build/release/bin/tenon --model FILE.gguf --python .venv/bin/python

The neighbour is left to the system's scheduler, as one of a user's would be. Both engines use as many
threads as there are CPUs, so one of them always shares its core. Ends after --minutes, with the
rounds that were whole by then."""
import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path


@contextlib.contextmanager
def neighbour(wanted):
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if wanted else None
    try:
        yield
    finally:
        if process is not None:
            process.kill()
            process.wait()


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)["results"]


def tenon_rate(args):
    command = [args.tenon, "bench", args.model, "--json", "-p", "0", "-n", str(args.tokens), "-r", "2", "-t",
               str(args.threads)]
    return run(command)[0]["tok_s"]["median"]


def llama_rate(args):
    case = {"name": "decode", "test": "decode", "prompt": 16, "tokens": args.tokens, "sequences": 1}
    return run([args.python, str(Path(__file__).parent / "peer_bench.py"), "--engine", "llama.cpp", "--model",
                args.model, "--threads", str(args.threads), "--repeats", "1", "--cases", json.dumps([case])])["decode"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has llama_cpp")
    parser.add_argument("--no-peer", dest="peer", action="store_false")
    args = parser.parse_args()
    engines = {"Tenon": tenon_rate, "llama.cpp": llama_rate} if args.peer else {"Tenon": tenon_rate}
    rates = {}
    start = time.monotonic()
    for done in range(args.rounds):
        # Not begun when it would end too late.
        if done and (time.monotonic() - start) * (done + 1) / done > args.minutes * 60:
            break
        for name, rate in engines.items():
            for loaded in (False, True):
                with neighbour(loaded):
                    rates.setdefault((name, loaded), []).append(rate(args))
    print("| engine | quiet, tok/s | beside a neighbour, tok/s | share (spread) |\n|---|---|---|---|")
    for name in engines:
        quiet, loaded = rates[name, False], rates[name, True]
        shares = sorted(b / a for a, b in zip(quiet, loaded))
        print(f"| {name} | {statistics.median(quiet):.4g} | {statistics.median(loaded):.4g} | "
              f"{statistics.median(shares):.2f} ({shares[0]:.2f} to {shares[-1]:.2f}) |")


if __name__ == "__main__":
    main()
