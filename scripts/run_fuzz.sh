#!/usr/bin/env bash
# Runs each fuzz target of a build folder for some seconds, on top of its committed corpus.
set -euo pipefail
build=$1
seconds=${2:-60}
for target in "$build"/fuzz/*_fuzz; do
  name=$(basename "$target" _fuzz)
  work="$build/corpus/$name"
  mkdir -p "$work"
  echo "== $name, $seconds s"
  "$target" -max_total_time="$seconds" -max_len=65536 -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 \
    -artifact_prefix="$build/$name-" "$work" "fuzz/corpus/$name"
done
