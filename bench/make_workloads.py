#!/usr/bin/env python3
"""Prompts of the three workloads of bench/modules.sh, from public text that the machine has.

    make_workloads.py DATA OUT     DATA: gsm8k-test.jsonl and wikitext2-test.txt

    short.jsonl     word problems, some 60 tokens; answers of 128 to 256 tokens
    summary.jsonl   the beginning of an article, 700 tokens and more, and "In summary"
    code.jsonl      half a function of Python's library, some 500 tokens, to be continued
    gsm-train.jsonl, gsm-test.jsonl   halves of GSM8K's test set, for the router and for judging it
"""
import json
import re
import sys
import sysconfig
from pathlib import Path


def write(path, prompts):
    path.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))


def main():
    data, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    lines = (data / "gsm8k-test.jsonl").read_text().splitlines(keepends=True)
    half = len(lines) // 2
    (out / "gsm-train.jsonl").write_text("".join(lines[:half]))
    (out / "gsm-test.jsonl").write_text("".join(lines[half:]))
    questions = [json.loads(line)["question"] for line in lines[half:half + 16]]
    write(out / "short.jsonl", [f"Question: {question}\nAnswer:" for question in questions])
    text = (data / "wikitext2-test.txt").read_text()
    articles = [a for a in re.split(r"\n(?= = [^=])", text) if len(a) > 4000]
    write(out / "summary.jsonl", [article[:3200] + "\n\n In summary ," for article in articles[:8]])
    library = Path(sysconfig.get_path("stdlib"))
    sources = (p.read_text(errors="replace") for p in sorted(library.glob("[a-z]*.py")))
    code = [s[1500:3500] for s in sources if len(s) > 4000]
    write(out / "code.jsonl", code[:8])


if __name__ == "__main__":
    main()
