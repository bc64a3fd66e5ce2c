#!/usr/bin/env bash
# Runs the tests of a build folder and ends with one line: N passed, N failed, N skipped.
set -uo pipefail
build=$1
shift
# Tests look for models where `tenon pull` puts them.
export TENON_HOME="${TENON_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/tenon}"
export TENON_PYTHON="${TENON_PYTHON:-$PWD/.venv/bin/python}"
# What jinja2 makes of the default model's own template, whose text is the model's and not ours.
model="$TENON_HOME/models/smollm2-135m-instruct.gguf"
[[ -f $model && -x $TENON_PYTHON ]] && "$TENON_PYTHON" scripts/make_chat_golden.py --model "$model" \
  --out "$TENON_HOME/smollm2-135m-instruct.chat.json"
log="$build/ctest.log"
ctest --test-dir "$build" --output-on-failure -j "$(nproc)" "$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
# CTest's own counts: "***Failed", "***Skipped" and the like mark the lines of single tests.
total=$(grep -cE '^ *[0-9]+/[0-9]+ Test ' "$log")
skipped=$(grep -cE '^ *[0-9]+/[0-9]+ Test .*\*\*\*Skipped' "$log")
passed=$(grep -cE '^ *[0-9]+/[0-9]+ Test .* Passed ' "$log")
failed=$((total - passed - skipped))
# Without CTest's dots, which make a line of each test as long as the longest name.
short() { sed -E 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: //; s/ *\.{3,}/ /'; }
# What was skipped and why, from what the tests printed: whole CTest entries, and tests inside of programs.
# GoogleTest prints FILE:LINE: Skipped and then the reason, the programs in Python and CMake "skipped: REASON" or
# "left out: REASON".
awk '
  FNR == NR {
    if (/^ *[0-9]+\/[0-9]+ Test .*\*\*\*Skipped/) {
      sub(/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: /, ""); sub(/ *\.*\*\*\*Skipped.*/, ""); whole[$0] = 1
    }
    next
  }
  /^[0-9]+\/[0-9]+ Testing: / { sub(/^[^:]*: /, ""); name = $0; place = ""; next }
  place != "" { Say(place, /^\[|^$/ ? "no reason given" : $0); place = ""; next }
  /: Skipped$/ { place = $1; sub(/.*\//, "", place); sub(/:$/, "", place); next }
  /^(skipped|left out): / { sub(/^[a-z ]*: /, ""); Say("", $0) }
  /^[^ ]+: skipped, / { Say("", $0) }
  function Say(place, reason) {
    said[name] = 1
    if (name in whole) list = list "  " name ": " reason "\n"
    else inner = inner "  " name (place == "" ? "" : ", " place) ": " reason "\n"
  }
  END {
    for (name in whole) if (!(name in said)) list = list "  " name ": no reason given\n"
    if (list != "") printf "skipped:\n%s", list
    if (inner != "") printf "skipped inside of programs that otherwise ran:\n%s", inner
  }' "$log" "$build/Testing/Temporary/LastTest.log"
# What a failed test printed, again where the end of the log shows it.
[[ $failed -gt 0 ]] && { echo "failed:"; awk '
  /^ *[0-9]+\/[0-9]+ Test / { shown = !/ Passed / && !/\*\*\*Skipped/; lines = 0 }
  /^ *Start +[0-9]+: / || /^[0-9]+% tests passed/ { shown = 0 }
  shown && lines++ < 80' "$log" | short; }
echo "$passed passed, $failed failed, $skipped skipped"
exit "$status"
