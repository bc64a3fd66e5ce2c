#!/usr/bin/env bash
# The table against the peers: fetches or builds them once into .cache/peers (llama.cpp from its source
# package, for this machine; OpenVINO GenAI, ONNX Runtime GenAI and CTranslate2 as packages), then runs
# all in interleaved rounds.
#   bench/compare.sh TENON_BINARY MODEL [further arguments of peers.py]
# llama.cpp and OpenVINO read the GGUF file itself. ONNX Runtime and CTranslate2 need the model in their
# own formats, which only their converters with PyTorch make: give the folders in TENON_BENCH_ORT and
# TENON_BENCH_CT2 to have them in the table (docs/performance.md says how they are made).
set -euo pipefail
cd "$(dirname "$0")/.."
tenon=$1
model=$2
shift 2
cache=.cache/peers
packages=(openvino-genai==2026.4.1.0 onnxruntime-genai==0.18.0 ctranslate2==4.8.5 numpy)
llama=llama-cpp-python==0.3.36
mkdir -p $cache
if [[ "$(cat $cache/packages.txt 2> /dev/null)" != "${packages[*]}" ]]; then
  echo "== fetching ${packages[*]}" >&2
  python3 -m venv $cache/packages
  $cache/packages/bin/pip install -q "${packages[@]}"
  echo "${packages[*]}" > $cache/packages.txt
fi
if [[ "$(cat $cache/llama.txt 2> /dev/null)" != "$llama" ]]; then
  echo "== building $llama for this machine, some ten minutes" >&2
  python3 -m venv $cache/llama
  CMAKE_ARGS="-DGGML_NATIVE=ON" CMAKE_BUILD_PARALLEL_LEVEL=$(nproc) \
    $cache/llama/bin/pip install -q --no-binary llama-cpp-python "$llama"
  echo "$llama" > $cache/llama.txt
fi
file=$("$tenon" pull --json "$model" 2> /dev/null | python3 -c 'import json,sys; print(json.load(sys.stdin)["path"])')
peers=(--peer llama.cpp --python "llama.cpp=$cache/llama/bin/python" --peer openvino --python "$cache/packages/bin/python")
[[ -n ${TENON_BENCH_ORT:-} ]] && peers+=(--peer "onnxruntime:$model=$TENON_BENCH_ORT")
[[ -n ${TENON_BENCH_CT2:-} ]] && peers+=(--peer "ctranslate2:$model=$TENON_BENCH_CT2")
exec python3 bench/peers.py --tenon "$tenon" --model "$model=$file" "${peers[@]}" "$@"
