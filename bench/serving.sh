#!/usr/bin/env bash
# All figures of the serving engine, for a machine that does nothing else (some 15 minutes):
#   bench/serving.sh BUILD MODEL.gguf [LLAMA_SERVER]
# Tokens per second beside llama-server over HTTP in interleaved rounds; beside `tenon bench` without a server;
# latency between tokens beside a long prefill; continuous against static batching; the cost of token masks.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 model=$2 llama=${3:-}
threads=$(nproc)
servers=(--server "tenon=$build/bin/tenon serve $model --port {port} -np 16 -c 8192 -q")
[[ -n $llama ]] && servers+=(--server "llama-server=$llama -m $model --port {port} -np 16 -c 8192 -t $threads -cb")
echo "== served tokens"
python3 bench/serve_load.py "${servers[@]}" --rounds 3
for part in rates latency policies; do
  echo "== $part"
  "$build/bench/serving_bench" "$model" "$part"
done
echo "== masks"
"$build/bench/constraint_bench" "$model"
