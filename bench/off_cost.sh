#!/usr/bin/env bash
# What hooks and debug settings cost a run that uses none of them: instructions of one call of the documents' MLP, in the
# runtime as it is and in one built without any hook (KILN_NO_HOOKS). Counted by callgrind as the difference between 2N and N
# calls, so that loading does not count. Fails when they differ by more than 1 %.
#   bench/off_cost.sh [BUILD [KILN]]    the release build to look at: build/release; the command that compiles the package
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build/release}
kiln=${2:-$build/bin/kiln}
calls=2000
for tool in valgrind gcc cmake; do
  command -v $tool >/dev/null || { echo "$tool is not installed: skipped"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# valgrind knows no AVX-512.
"$kiln" compile tests/cases/mlp/model.pt2 --target x86-64-v3 -o "$work/mlp.kiln.pt2" >/dev/null

cmake -S . -B build/off_cost -G Ninja -DCMAKE_BUILD_TYPE=Release -DKILN_NO_HOOKS=ON -DKILN_TESTS=OFF \
  $(command -v ccache >/dev/null && echo -DCMAKE_CXX_COMPILER_LAUNCHER=ccache) >"$work/log" 2>&1 &&
  cmake --build build/off_cost --target kiln_runtime >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }

# count LIBRARY_FOLDER: instructions of one call.
count() {
  local totals=() n
  gcc -O2 -Iinclude bench/off_cost.c -o "$work/off_cost" -L"$1" -lkiln_runtime -Wl,-rpath,"$PWD/$1"
  for n in $calls $((2 * calls)); do
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$work/off_cost" "$work/mlp.kiln.pt2" $n >"$work/log" 2>&1 ||
      { cat "$work/log" >&2; exit 1; }
    totals+=("$(sed -n 's/.*Collected : //p' "$work/log")")
  done
  awk "BEGIN { print (${totals[1]} - ${totals[0]}) / $calls }"
}
with=$(count "$build/lib")
without=$(count build/off_cost/lib)
awk -v with="$with" -v without="$without" 'BEGIN {
  printf "instructions per call of the MLP: %.1f with hooks that nobody uses, %.1f without any: %+.2f %%\n", with, without,
         100 * (with / without - 1)
  exit !(with / without < 1.01)
}'
