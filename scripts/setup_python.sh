#!/usr/bin/env bash
# A virtual environment with the reference implementations that tests compare with: .venv.
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=(numpy==2.4.6 gguf==0.19.0 tokenizers==0.23.3 jinja2==3.1.6)
stamp=.venv/installed.txt
[[ -f $stamp && "$(cat $stamp)" == "${wanted[*]}" ]] && exit 0
echo "== Python references: ${wanted[*]}"
python3 -m venv .venv
.venv/bin/python -m pip install -q --disable-pip-version-check "${wanted[@]}"
echo "${wanted[*]}" > $stamp
