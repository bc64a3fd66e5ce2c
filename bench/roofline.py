#!/usr/bin/env python3
"""Draws what bench/peers.py measured against what the machine allows, as SVG.

  bench/roofline.py docs/peers.json --model "SmolLM2 Q4_1" --out docs/images/roofline.svg \\
      --weights 134.5e6 --ops 180e9

Across: tokens that one reading of the weights serves (1 in decode, the sequences of a batch, the 512 of
a prefill step). Up: tokens a second. The slanted roof is read bandwidth (`tenon doctor`: a sweep by the
same threads over as many bytes as the weights have); the flat one is --ops multiply-adds a second
divided by --weights, where --ops is kernel_bench's gemm from the cache. Numbers are medians over rounds."""
import argparse
import json
import math
import statistics
from pathlib import Path

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 460, 70, 20, 50, 55
COLORS = {"tenon": "#0b6e4f", "llama.cpp": "#b5541c", "openvino": "#3b5b92", "onnxruntime": "#7a3e8e",
          "ctranslate2": "#6b6b6b"}
TOKENS = {"decode after 0": 1, "2 sequences": 2, "4 sequences": 4, "8 sequences": 8, "16 sequences": 16,
          "32 sequences": 32, "prefill 512": 512}
X_RANGE = (0.8, 700.0)


def medians(facts, model):
    """{engine: [(tokens a step, tok/s)]}"""
    found = {}
    for entry in facts["rounds"]:
        for engine, cells in entry.get(model, {}).items():
            for name, tokens in TOKENS.items():
                if name in cells:
                    found.setdefault(engine, {}).setdefault(tokens, []).append(cells[name])
    return {engine: [(x, statistics.median(values)) for x, values in sorted(points.items())]
            for engine, points in found.items()}


class Chart:
    def __init__(self, low, high):
        self.low, self.high = math.log10(low), math.log10(high)
        self.parts = []

    def x(self, value):
        begin, end = (math.log10(limit) for limit in X_RANGE)
        return LEFT + (math.log10(value) - begin) / (end - begin) * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        return HEIGHT - BOTTOM - (math.log10(value) - self.low) / (self.high - self.low) * (HEIGHT - TOP - BOTTOM)

    def text(self, x, y, text, anchor="middle", color="#333", size=12):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}" '
                          f'font-size="{size}">{text}</text>')

    def line(self, points, color, extra=""):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2" {extra}/>')

    def axes(self):
        for tokens in TOKENS.values():
            self.text(self.x(tokens), HEIGHT - BOTTOM + 18, tokens)
            self.line([(self.x(tokens), TOP), (self.x(tokens), HEIGHT - BOTTOM)], "#eee")
        for power in range(math.ceil(self.low), math.floor(self.high) + 1):
            self.text(LEFT - 8, self.y(10 ** power) + 4, f"{10 ** power:,}", "end")
            self.line([(LEFT, self.y(10 ** power)), (WIDTH - RIGHT, self.y(10 ** power))], "#eee")
        self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "tokens in one step (one reading of the weights)")
        self.text(LEFT, TOP - 12, "tokens a second", "start")

    def series(self, index, name, points):
        color = COLORS.get(name, "#000")
        self.line([(self.x(x), self.y(y)) for x, y in points], color)
        for x, y in points:
            self.parts.append(f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="4" fill="{color}">'
                              f"<title>{name}: {y:.4g} tok/s</title></circle>")
        self.text(WIDTH - RIGHT, HEIGHT - BOTTOM - 12 - 17 * index, name, "end", color, 13)

    def svg(self):
        body = "\n".join(self.parts)
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">\n'
                f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>\n{body}\n</svg>\n')


def draw(facts, args):
    engines = medians(facts, args.model)
    doctor = facts["doctor"][args.model]
    # Tokens a second that reading the weights once a step allows, for each token in it.
    read_rate = doctor["sweep_gb_s"] * 1e9 / doctor["bytes_per_token"]
    compute_rate = args.ops / args.weights if args.ops and args.weights else math.inf
    rates = [y for points in engines.values() for _, y in points]
    top = compute_rate if compute_rate < math.inf else max(rates) * 4
    chart = Chart(10 ** math.floor(math.log10(min(rates))), max(top, max(rates)) * 1.5)
    chart.axes()
    edge = min(X_RANGE[1], top / read_rate)
    roof = [(x, min(x * read_rate, top)) for x in (X_RANGE[0], edge, X_RANGE[1])]
    if compute_rate == math.inf:
        roof.pop()
    else:
        chart.text(chart.x(512), chart.y(top) - 7, "multiply-adds", size=11)
    chart.line([(chart.x(x), chart.y(y)) for x, y in roof], "#999", 'stroke-dasharray="6 4"')
    chart.text(chart.x(1.2), chart.y(read_rate * 1.9), f"read bandwidth, {doctor['sweep_gb_s']:.1f} GB/s", "start", size=11)
    for index, (name, points) in enumerate(engines.items()):
        chart.series(index, name, points)
    chart.text(WIDTH / 2, 20, f"{args.model}: {facts['head'].split(';')[0]}", size=14)
    return chart.svg()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("facts", type=Path, help="the JSON of bench/peers.py")
    parser.add_argument("--model", required=True, help="a label in it")
    parser.add_argument("--weights", type=float, default=0.0, help="weights that a token is multiplied with")
    parser.add_argument("--ops", type=float, default=0.0, help="multiply-adds a second from the cache")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.write_text(draw(json.loads(args.facts.read_text(encoding="utf-8")), args), encoding="utf-8")


if __name__ == "__main__":
    main()
