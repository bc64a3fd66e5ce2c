#!/usr/bin/env python3
"""Tables and pictures from the JSON lines of modules_bench.

    modules_table.py RESULTS.jsonl... [--svg CURVES.svg] [--speed-svg BARS.svg]    markdown on standard output
"""
import argparse
import json
from pathlib import Path

COLOURS = {"trained": "#c0392b", "top1": "#2471a3", "margin": "#7d3c98", "entropy": "#1e8449"}


def speed_table(rows):
    out = []
    for workload in dict.fromkeys(r["workload"] for r in rows):
        mine = [r for r in rows if r["workload"] == workload]
        plain = next((r for r in mine if r["setting"] == "plain"), mine[0])
        out += [f"\n{workload}\n",
                "| setting | tok/s | against plain | first token s | gap p50 ms | gap p99 ms | large share | agreement | NLL |",
                "|---|---|---|---|---|---|---|---|---|"]
        for r in mine:
            routing = (r.get("modules") or {}).get("routing", {})
            share = routing.get("large_share")
            out.append(
                f"| {r['setting']} | {r['tok_s']:.1f} | {r['tok_s'] / plain['tok_s']:.2f}x"
                f" | {r['first_token_s']:.2f} | {r['gap_p50_ms']:.0f} | {r['gap_p99_ms']:.0f}"
                f" | {'' if share is None else f'{share:.2f}'} | {r['agreement']:.3f} | {r['nll']:.3f} |")
    return out


def at_agreement(points, wanted):
    """The least share of the large model with at least this agreement, and the random router's."""
    good = [p for p in points if p[2] >= wanted]
    return min(good, key=lambda p: p[1]) if good else None


def curve_table(rows):
    out = ["\n| text | score | hysteresis | gain over random | share at 92% | random there | share at 95% | at share 0.72 |",
           "|---|---|---|---|---|---|---|---|"]
    for r in rows:
        cells = []
        p = at_agreement(r["points"], 0.92)
        cells += [f"{p[1]:.2f}", f"{p[3]:.3f}"] if p else ["none", ""]
        q = at_agreement(r["points"], 0.95)
        cells.append(f"{q[1]:.2f}" if q else "none")
        near = min(r["points"], key=lambda x: abs(x[1] - 0.72))
        cells.append(f"{near[2]:.3f} ({near[3]:.3f})")
        out.append(f"| {Path(r['text']).stem} | {r['score']} | {r['hysteresis']}"
                   f" | {r['gain_over_random']:.4f} | " + " | ".join(cells) + " |")
    return out


def panel(rows, text, left, width, height):
    """Agreement against the share of the large model, for hysteresis 1, with the random router."""
    mine = [r for r in rows if r["text"] == text and r["hysteresis"] == 1]
    low = min(p[3] for r in mine for p in r["points"])
    low = int(low * 20) / 20
    x = lambda share: left + 50 + share * (width - 70)
    y = lambda agreement: 30 + (1 - agreement) / (1 - low) * (height - 70)
    out = [f'<text x="{left + width / 2}" y="16" text-anchor="middle" font-weight="bold">{Path(text).stem}</text>']
    for i in range(6):
        share = i / 5
        out.append(f'<text x="{x(share)}" y="{height - 22}" text-anchor="middle">{share:.1f}</text>')
        value = low + (1 - low) * i / 5
        out.append(f'<line x1="{x(0)}" x2="{x(1)}" y1="{y(value)}" y2="{y(value)}" stroke="#ddd"/>')
        out.append(f'<text x="{x(0) - 6}" y="{y(value) + 4}" text-anchor="end">{value:.2f}</text>')
    out.append(f'<text x="{left + width / 2}" y="{height - 6}" text-anchor="middle">share of tokens by the large model</text>')
    points = sorted({(p[1], p[3]) for r in mine for p in r["points"]})
    path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in points)
    out.append(f'<polyline points="{path}" fill="none" stroke="#888" stroke-dasharray="5 4"/>')
    for r in mine:
        path = " ".join(f"{x(p[1]):.1f},{y(p[2]):.1f}" for p in sorted(r["points"], key=lambda p: p[1]))
        out.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[r["score"]]}" stroke-width="1.8"/>')
    for i, (name, colour) in enumerate([*((r["score"], COLOURS[r["score"]]) for r in mine), ("random", "#888")]):
        out.append(f'<text x="{x(0.62)}" y="{y(low) - 12 - 15 * i}" fill="{colour}">{name}</text>')
    return out


def picture(rows):
    texts = list(dict.fromkeys(r["text"] for r in rows))
    width, height = 420, 320
    body = [line for i, text in enumerate(texts) for line in panel(rows, text, i * width, width, height)]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width * len(texts)}" height="{height}" '
            'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>\n'
            + "\n".join(body) + "\n</svg>\n")


def bars(rows):
    """Speed against plain, one group of bars for each workload; the line is plain itself."""
    groups = {}
    for r in rows:
        groups.setdefault(r["workload"], []).append(r)
    width, left, row = 760, 300, 18
    most = max(r["tok_s"] / mine[0]["tok_s"] for mine in groups.values() for r in mine)
    x = lambda ratio: left + ratio / most * (width - left - 70)
    body, y = [], 10
    for name, mine in groups.items():
        y += 22
        body.append(f'<text x="10" y="{y}" font-weight="bold">{name}</text>')
        top = y + 6
        for r in mine:
            y += row
            ratio = r["tok_s"] / mine[0]["tok_s"]
            colour = "#1e8449" if ratio >= 1 else "#c0392b"
            body.append(f'<text x="{left - 8}" y="{y + 9}" text-anchor="end">{r["setting"]}</text>')
            body.append(f'<rect x="{left}" y="{y}" width="{x(ratio) - left:.1f}" height="12" fill="{colour}"/>')
            body.append(f'<text x="{x(ratio) + 5:.1f}" y="{y + 10}">{ratio:.2f}x, agreement {r["agreement"]:.2f}</text>')
        body.append(f'<line x1="{x(1):.1f}" x2="{x(1):.1f}" y1="{top}" y2="{y + row}" stroke="#555" stroke-dasharray="3 3"/>')
        y += row
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 60}" height="{y + 16}" '
            'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>\n'
            + "\n".join(body) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--speed-svg", type=Path)
    args = parser.parse_args()
    rows = [json.loads(line) for path in args.results for line in path.read_text().splitlines() if line]
    curves = [r for r in rows if r.get("kind") == "curve"]
    speeds = [r for r in rows if r.get("kind") == "speed"]
    if curves:
        print("\n".join(curve_table(curves)))
    if speeds:
        print("\n".join(speed_table(speeds)))
    if curves and args.svg:
        args.svg.write_text(picture(curves))
    if speeds and args.speed_svg:
        args.speed_svg.write_text(bars(speeds))


if __name__ == "__main__":
    main()
