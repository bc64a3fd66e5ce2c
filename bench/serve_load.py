#!/usr/bin/env python3
"""Load on OpenAI-style servers: output tokens/s, TTFT and inter-token times at 1, 4, 8, 16 streams, in
interleaved rounds. Each server is started for its turn and stopped after it, so that one runs at a time.

  bench/serve_load.py --server 'tenon=build/release/bin/tenon serve FILE --port {port} -np 8' \\
      --server 'llama-server=llama-server -m FILE --port {port} -np 8 -t 2' \\
      --bench 'build/release/bin/tenon bench FILE' --slots 8 --rounds 3

A stream asks one completion after the other: a prompt of --prompt-words words that differs each time
(so that no prefix cache helps), --tokens output tokens, greedy, end tokens ignored.

With --bench each round also measures the model alone, and the first server's tokens/s are given as a part of what
that would reach: as many prompts one after the other, then their tokens in a batch, with as many sequences as there
are streams, or --slots if that is less."""
import argparse
import asyncio
import json
import shlex
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

WORDS = ("river stone garden window paper silver engine market winter forest signal bridge copper "
         "lantern harbour valley canvas thunder meadow compass").split()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, command):
        self.port = free_port()
        self.process = subprocess.Popen(shlex.split(command.format(port=self.port)),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait(self):
        for _ in range(600):
            if self.process.poll() is not None:
                sys.exit("a server ended before it was ready")
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=1) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                pass
            time.sleep(0.1)
        sys.exit("a server was not ready in time")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()


def prompt_text(number, words):
    return " ".join([f"Story {number}:"] + [WORDS[(number * 31 + i * i) % len(WORDS)] for i in range(words)])


async def complete(port, prompt, tokens):
    """Times of the tokens' arrivals, relative to the request's start."""
    body = json.dumps({"prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": True,
                       "ignore_eos": True}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n").encode()
    start = time.perf_counter()
    writer.write(head + body)
    await writer.drain()
    status = await reader.readline()
    if b" 200 " not in status:
        raise RuntimeError(f"{status!r} {await reader.read(2000)!r}")
    times = []
    while line := await reader.readline():
        if line.startswith(b"data: {") and b'"choices"' in line and b'"choices":[]' not in line:
            times.append(time.perf_counter() - start)
    writer.close()
    return times


def alone(command, args):
    """Output tokens/s at each number of streams if nothing but the model's own steps took time."""
    counts = sorted({min(streams, args.slots) for streams in args.streams})
    done = subprocess.run([*shlex.split(command), "-p", str(args.prompt_tokens), "-n", str(args.tokens), "-d",
                           str(args.prompt_tokens), "-np", *map(str, counts), "-r", "1", "--json"],
                          capture_output=True, text=True, check=True)
    results = json.loads(done.stdout)["results"]
    prefill = next(entry["tok_s"]["median"] for entry in results if entry["test"] == "prefill")
    batch = {entry["sequences"]: entry["tok_s"]["median"] for entry in results if entry["test"] == "batch"}
    def rate(count):
        return args.tokens / (args.prompt_tokens / prefill + args.tokens / batch[count])
    return {streams: rate(min(streams, args.slots)) for streams in args.streams}


async def stream_loop(port, state, args):
    while time.perf_counter() < state["end"]:
        state["number"] += 1
        begun = time.perf_counter()
        times = await complete(port, prompt_text(state["number"], args.prompt_words), args.tokens)
        state["done"].append((begun, times))


async def load(port, streams, args, number):
    state = {"end": time.perf_counter() + args.seconds, "number": number, "done": []}
    start = time.perf_counter()
    await asyncio.gather(*[stream_loop(port, state, args) for _ in range(streams)])
    elapsed = time.perf_counter() - start
    firsts = [times[0] for _, times in state["done"]]
    gaps = [b - a for _, times in state["done"] for a, b in zip(times, times[1:])]
    return {"tok_s": len(state["done"]) * args.tokens / elapsed, "ttft_p50": statistics.median(firsts),
            "itl_p50": statistics.median(gaps), "itl_p99": statistics.quantiles(gaps, n=100)[98],
            "requests": len(state["done"])}


def measure(command, args, number):
    server = Server(command)
    try:
        server.wait()
        asyncio.run(complete(server.port, prompt_text(0, args.prompt_words), 8))
        return {streams: asyncio.run(load(server.port, streams, args, number + streams * 1000))
                for streams in args.streams}
    finally:
        server.stop()


def spread(values, form):
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def table(rounds, names, streams):
    lines = ["| streams | server | tok/s | ahead of it (spread) | of the model alone | TTFT p50, ms | ITL p50, ms | ITL p99, ms |",
             "|---|---|---|---|---|---|---|---|"]
    for count in streams:
        for name in names:
            cells = [entry[name][count] for entry in rounds]
            ratios = [entry[names[0]][count]["tok_s"] / entry[name][count]["tok_s"] for entry in rounds]
            ratio = "" if name == names[0] else spread(ratios, ".2f")
            part = ""
            if name == names[0] and "alone" in rounds[0]:
                part = spread([entry[name][count]["tok_s"] / entry["alone"][count] for entry in rounds], ".0%")
            middle = {key: statistics.median(cell[key] for cell in cells) for key in cells[0]}
            lines.append(f"| {count} | {name} | {middle['tok_s']:.1f} | {ratio} | {part} | {middle['ttft_p50'] * 1e3:.0f} | "
                         f"{middle['itl_p50'] * 1e3:.1f} | {middle['itl_p99'] * 1e3:.1f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", action="append", required=True, metavar="NAME=COMMAND")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 4, 8, 16])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompt-words", type=int, default=70, help="about 100 tokens")
    parser.add_argument("--prompt-tokens", type=int, default=100, help="what that is, for --bench")
    parser.add_argument("--bench", metavar="COMMAND")
    parser.add_argument("--slots", type=int, default=8, help="sequences that the servers run at once")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    servers = dict(text.split("=", 1) for text in args.server)
    rounds = []
    for index in range(args.rounds):
        rounds.append({name: measure(command, args, index * 100000) for name, command in servers.items()})
        if args.bench:
            rounds[-1]["alone"] = alone(args.bench, args)
        print(f"round {index + 1}/{args.rounds}", file=sys.stderr)
    text = table(rounds, list(servers), args.streams)
    print(text)
    if args.out:
        args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
