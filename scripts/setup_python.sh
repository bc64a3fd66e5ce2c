#!/usr/bin/env bash
# A virtual environment with the reference implementations that tests compare with: .venv.
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=(numpy==2.4.6 gguf==0.19.0 tokenizers==0.23.3 jinja2==3.1.6
  openai==3.57.0 anthropic==2.14.0 ollama==0.6.3 websockets==17.4
  onnx==1.23.2 onnxruntime==1.32.0 ml_dtypes==0.6.0
  jsonschema==4.26.0 rfc3339-validator==0.1.4
  selenium==4.51.0 grpcio==1.85.0 grpcio-health-checking==1.85.0 grpcio-reflection==1.85.0)
stamp=.venv/installed.txt
[[ -f $stamp && "$(cat $stamp)" == "${wanted[*]}" ]] && exit 0
echo "== Python references: ${wanted[*]}"
python3 -m venv .venv
.venv/bin/python -m pip install -q --disable-pip-version-check "${wanted[@]}"
echo "${wanted[*]}" > $stamp
