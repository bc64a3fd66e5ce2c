#!/usr/bin/env bash
# Runs a test of this folder with the Python that has the reference packages: $TENON_PYTHON, the
# virtual environment of scripts/setup_python.sh, or the system's.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
root="$(cd "$here/../.." && pwd)"
python="${TENON_PYTHON:-$root/.venv/bin/python}"
[[ -x "$python" ]] || python=python3
export PYTHONPATH="$here" PYTHONDONTWRITEBYTECODE=1
exec "$python" "$here/$1" "${@:2}"
