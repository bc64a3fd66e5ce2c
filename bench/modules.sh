#!/usr/bin/env bash
# Everything about acceleration modules in one go: fits a router, draws the curves of quality, and
# measures each module alone and stacked on three workloads. Some ten minutes on two quiet cores.
#   bench/modules.sh BUILD DATA OUT LARGE SMALL QUANTIZED
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 data=$2 out=$3
large=$4 small=$5 quantized=$6
bench=$build/bench/modules_bench
python3 bench/make_workloads.py "$data" "$out"
[[ -f $out/router.safetensors ]] ||
  "$bench" fit "$large" "$small" --out "$out/router.safetensors" --tokens "${FIT_TOKENS:-16000}" \
    --text "$out/gsm-train.jsonl" --text "$data/wikitext2-valid.txt" > "$out/fit.json"
"$bench" curve "$large" "$small" --router "$out/router.safetensors" --tokens "${CURVE_TOKENS:-6000}" \
  --text "$out/gsm-test.jsonl" --text "$data/wikitext2-test.txt" > "$out/curve.jsonl"
"$bench" speed "$large" "$small" --router "$out/router.safetensors" --quantized "$quantized" \
  --prompts "${PROMPTS:-4}" --answer "${ANSWER:-128}" --rounds "${ROUNDS:-2}" \
  --workload "short generation=$out/short.jsonl" --workload "long-document summary=$out/summary.jsonl" \
  --workload "code completion=$out/code.jsonl" > "$out/speed.jsonl"
python3 bench/modules_table.py "$out/curve.jsonl" "$out/speed.jsonl" --svg "$out/routing.svg" \
  --speed-svg "$out/speed.svg"
