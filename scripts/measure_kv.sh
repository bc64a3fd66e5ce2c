#!/usr/bin/env bash
# Divergence of the KV cache types from an f32 cache, and the speed of attention over them: the
# figures of docs/kv-cache.md.
#   scripts/measure_kv.sh TENON KERNEL_BENCH TEXT [MODEL]
set -euo pipefail
tenon=$1 bench=$2 text=$3 model=${4:-smollm2-135m-instruct}
base=$(mktemp)
trap 'rm -f "$base"' EXIT
for shape in "512 12" "8000 1"; do
  read -r context chunks <<< "$shape"
  common=(perplexity "$model" -f "$text" -c "$context" --chunks "$chunks" --reference --json)
  echo "== $chunks chunks of $context, base f32: $("$tenon" "${common[@]}" --save-base "$base" 2> /dev/null)"
  for type in f16 bf16 q8 hier q4 nf4; do
    echo "$type $("$tenon" "${common[@]}" -ctk "$type" --kl-base "$base" 2> /dev/null)"
  done
done
echo "== decode at 8,000 tokens"
for type in f16 q8 hier q4 nf4; do
  echo "$type $("$tenon" bench "$model" -p 0 -n 16 -d 8000 -ctk "$type" --json 2> /dev/null)"
done
"$bench" --benchmark_filter='decode_attention/(avx2|avx512vnni|neon)/(f16|q8|q4|nf4|hier)/|kv_seal' \
  --benchmark_repetitions=5 --benchmark_min_time=0.1 \
  --benchmark_enable_random_interleaving=true --benchmark_report_aggregates_only=true
