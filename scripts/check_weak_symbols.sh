#!/bin/sh
# Fails when a kernel object (src/hal/cpu/<isa>/*.o of a build folder) holds a weak symbol.
#
# The linker keeps one copy of a weak symbol (an inline function, a template) for the whole program.
# If that copy came from a file built for AVX-512, the program would end with SIGILL elsewhere.
#   check_weak_symbols.sh BUILD_FOLDER [NM]
set -eu
build=${1:?usage: check_weak_symbols.sh BUILD_FOLDER [NM]}
nm=${2:-nm}
objects=$(find "$build" -path '*hal/cpu/*/*' -name '*.o' -path '*tenon_hal.dir*' | sort)
if [ -z "$objects" ]; then
  echo "no kernel objects (tenon_hal.dir/hal/cpu/<isa>/*.o) below $build" >&2
  exit 2
fi
weak=0
for object in $objects; do
  # V, W: weak with a definition; v, w: without; u: unique across the program.
  found=$("$nm" -C "$object" | grep -E ' [VWu] ' || true)
  if [ -n "$found" ]; then
    printf '%s:\n%s\n' "$object" "$found" >&2
    weak=1
  fi
done
[ "$weak" -eq 0 ] && echo "no weak symbols in $(echo "$objects" | wc -l) kernel objects"
exit "$weak"
