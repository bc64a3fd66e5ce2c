#!/usr/bin/env bash
# Formatting, the tree's rules, and clang-tidy over a folder configured by the lint preset.
#   scripts/lint.sh BUILD [--quick]     --quick leaves clang-tidy out
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
echo "== format"
git ls-files '*.h' '*.cc' | xargs clang-format-19 --dry-run --Werror
echo "== rules"
python3 scripts/check_rules.py
[[ "${2:-}" == --quick ]] && exit 0
# Without the warning for deprecated names: the standard library uses its own.
echo "== clang-tidy"
git ls-files 'src/*.cc' | grep -v '/hal/cpu/' |
  xargs -P "$(nproc)" -n 4 clang-tidy-19 -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option \
    --extra-arg=-Wno-deprecated-declarations
