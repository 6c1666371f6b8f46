#!/usr/bin/env bash
# The one command that tests Kiln: installs what is missing, builds, runs every test. The last line is
# "N passed, N failed, N skipped"; the exit status is 0 only if nothing failed.
#
#   tools/test.sh            everything (what .ci/run does)
#   tools/test.sh --quick    the release build and its tests only
#
# 1. the release build and all of ctest: unit tests, rules of the tree, the cases in tests/cases on every backend;
# 2. the cases of tests/corpus_slice.txt, where the corpus is found ($KILN_CORPUS, or ../shared/corpus);
# 3. the tests of everything that reads files, built with the address and undefined-behaviour sanitizers.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

quick=0
[ "${1:-}" = --quick ] && quick=1
readers=(kiln_base kiln_types kiln_graph kiln_loops kiln_pt2 kiln_package kiln_runtime)  # they take files from outside
passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

add() { passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3)); }
heading() { printf '\n==== %s\n' "$*"; }
broken() { echo "$*"; add 0 1 0; }
finish() {
  printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
  exit
}

# Runs ctest in build/PRESET and adds up its lines ("3/12 Test  #3: types ....   Passed    0.12 sec").
run_ctest() {
  local preset=$1
  shift
  ctest --test-dir "build/$preset" --output-on-failure -j "$(nproc)" "$@" 2>&1 | tee "$log"
  local status=${PIPESTATUS[0]} ok bad skip
  ok=$(grep -c -E '^ *[0-9]+/[0-9]+ Test +#.* Passed +[0-9.]+ sec' "$log")
  skip=$(grep -c -E '^ *[0-9]+/[0-9]+ Test +#.*\*\*\*(Skipped|Not Run \(Disabled\))' "$log")
  bad=$(grep -c -E '^ *[0-9]+/[0-9]+ Test +#.*(\*\*\*|Exception)' "$log")
  bad=$((bad - skip))
  [ "$status" -ne 0 ] && [ "$bad" -eq 0 ] && bad=1
  add "$ok" "$bad" "$skip"
}

# Runs `kiln check` on the listed cases of the corpus with one backend and adds up its last line.
run_corpus() {
  local corpus=$1 backend=$2 cases=()
  mapfile -t cases < <(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' -e "s|^|$corpus/|" tests/corpus_slice.txt)
  [ ${#cases[@]} -eq 0 ] && return
  build/release/bin/kiln check "${cases[@]}" --backend "$backend" --jobs "$(nproc)" \
    --custom-op-lib build/release/lib/libkiln_example_custom_ops.so 2>&1 | tee "$log"
  local last
  last=$(tail -n 1 "$log")
  if [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped ]]; then
    add "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" "${BASH_REMATCH[3]}"
  else
    broken "kiln check ended without its count"
  fi
}

heading "release build"
if ! tools/build.sh release; then
  broken "the release build failed"
  finish
fi
heading "tests"
run_ctest release

corpus=${KILN_CORPUS:-../shared/corpus}
if [ -d "$corpus" ]; then
  for backend in interpret loops compiled; do
    heading "corpus slice, $backend"
    run_corpus "$(cd "$corpus" && pwd)" "$backend"
  done
fi

if [ "$quick" -eq 0 ]; then
  heading "readers of files under the address and undefined-behaviour sanitizers"
  if tools/build.sh asan-ubsan "${readers[@]/%/_test}"; then
    run_ctest asan-ubsan -R "^($(IFS='|'; echo "${readers[*]#kiln_}"))\$"
  else
    broken "the sanitizer build failed"
  fi
fi
finish
