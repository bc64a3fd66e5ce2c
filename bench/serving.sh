#!/usr/bin/env bash
# All figures of the serving engine, for a machine that does nothing else (some 6 minutes):
#   bench/serving.sh BUILD MODEL.gguf [LLAMA_SERVER]
# Tokens per second over HTTP beside llama-server in interleaved rounds, and as a part of the model alone: a server
# should keep the engine's own lead (2.1, 3.0, 3.2 and 3.4 times at 1, 4, 8 and 16 sequences, docs/performance.md) and
# lose little to HTTP; the engine beside `tenon bench` without a server; latency between tokens beside a long prefill;
# continuous against static batching; the cost of token masks.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 model=$2 llama=${3:-}
threads=$(nproc)
servers=(--server "tenon=$build/bin/tenon serve $model --port {port} -np 8 -c 8192 -q")
[[ -n $llama ]] && servers+=(--server "llama-server=$llama -m $model --port {port} -np 8 -c 8192 -t $threads -cb")
echo "== served tokens: prompts of 100 tokens, 64 output tokens, 8 sequences at once"
python3 bench/serve_load.py "${servers[@]}" --bench "$build/bin/tenon bench $model" --rounds "${ROUNDS:-3}" \
  --seconds "${SECONDS_EACH:-5}"
for part in rates latency policies; do
  echo "== $part"
  "$build/bench/serving_bench" "$model" "$part"
done
echo "== masks"
"$build/bench/constraint_bench" "$model"
