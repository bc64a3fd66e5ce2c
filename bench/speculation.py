#!/usr/bin/env python3
"""Speculation beside plain decoding: `tenon run` in interleaved rounds, ids compared.

  bench/speculation.py --tenon build/bin/tenon --model MODEL --text FILE --context 4096 --tokens 128 \\
      --case plain-f16= --case plain-q8=-ctk,q8_0 --case spec="-ctk,hier,--module,self_spec"

Each case is NAME=FLAGS (separated by commas, "+" for a comma within one). The prompt is the
text's first tokens. Reports, for each case, decode tokens a second (median over the rounds), its ratio to the first case, acceptance, and
whether its ids equal those of the case given by --same NAME=NAME."""
import argparse
import json
import statistics
import subprocess
import tempfile


def prompt_file(tenon, model, text, tokens):
    """The first `tokens` tokens of the text, found by halving: the tokenizer decides."""
    content = open(text, encoding="utf-8").read()

    def count(size):
        lines = json.dumps(content[:size]) + "\n"
        out = subprocess.run([tenon, "tokenize", model, "--jsonl"], input=lines, capture_output=True, text=True, check=True)
        return len(json.loads(out.stdout))

    low, high = 1, min(len(content), tokens * 12)
    while high - low > max(4, tokens // 500):
        middle = (low + high) // 2
        low, high = (middle, high) if count(middle) < tokens else (low, middle)
    file = tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False, encoding="utf-8")
    file.write(content[:low])
    file.close()
    return file.name


def run(args, prompt, flags):
    command = [args.tenon, "run", args.model, "-f", prompt, "--raw", "--json", "--temp", str(args.temp), "--seed", "1", "-n",
               str(args.tokens), "--ignore-eos"] + (["-t", str(args.threads)] if args.threads else []) + flags
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{out.stderr}")
    return json.loads(out.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tenon", default="build/bin/tenon")
    parser.add_argument("--model", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--temp", type=float, default=0.0)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--case", action="append", required=True)
    parser.add_argument("--same", action="append", default=[])
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    cases = {}
    for case in args.case:
        name, _, flags = case.partition("=")
        cases[name] = [flag.replace("+", ",") for flag in flags.split(",")] if flags else []
    prompt = prompt_file(args.tenon, args.model, args.text, args.context)
    results = {name: [] for name in cases}
    for _ in range(args.rounds):
        for name, flags in cases.items():
            results[name].append(run(args, prompt, flags))
    report = []
    first = None
    for name, runs in results.items():
        rate = statistics.median(r["tokens_per_s"] for r in runs)
        first = first or rate
        line = {"case": name, "tok_s": round(rate, 2), "ratio": round(rate / first, 3), "prompt_tokens": runs[0]["prompt_tokens"]}
        for module in runs[-1].get("modules", []):
            if module["proposed"]:
                line[module["name"]] = {"acceptance": round(module["accepted"] / module["proposed"], 3), "proposed": module["proposed"],
                                        "paused": module["paused"], "gauges": module.get("gauges", {})}
        report.append(line)
    for pair in args.same:
        a, _, b = pair.partition("=")
        equal = results[a][0]["token_ids"] == results[b][0]["token_ids"]
        report.append({"same": pair, "equal": equal})
    for line in report:
        print(json.dumps(line) if args.json else "  ".join(f"{k} {v}" for k, v in line.items()))


if __name__ == "__main__":
    main()
