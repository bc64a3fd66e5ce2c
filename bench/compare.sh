#!/usr/bin/env bash
# The table against llama.cpp: builds the peer from its source package for this machine (once, into
# .cache/peers), then runs both in interleaved rounds.
#   bench/compare.sh TENON_BINARY MODEL [further arguments of compare.py]
set -euo pipefail
cd "$(dirname "$0")/.."
tenon=$1
model=$2
shift 2
peer=llama-cpp-python==0.3.36
venv=.cache/peers
if [[ "$(cat $venv/installed.txt 2> /dev/null)" != "$peer" ]]; then
  echo "== building $peer for this machine, some ten minutes" >&2
  python3 -m venv $venv
  CMAKE_ARGS="-DGGML_NATIVE=ON" CMAKE_BUILD_PARALLEL_LEVEL=$(nproc) \
    $venv/bin/pip install -q --no-binary llama-cpp-python "$peer"
  echo "$peer" > $venv/installed.txt
fi
file=$("$tenon" pull --json "$model" 2> /dev/null | python3 -c 'import json,sys; print(json.load(sys.stdin)["path"])')
exec $venv/bin/python bench/compare.py --tenon "$tenon" --model "$file" "$@"
