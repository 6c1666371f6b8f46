#!/usr/bin/env bash
# Shows what a change does to the compiler's results: two builds of the command generate the code of a set of models, and
# everything that a package would be made from is compared: the loops as they were scheduled, the plan, the C++ of every
# target and its flags. With --packages the packages themselves, byte by byte (slow: it runs the C++ compiler); with
# --passes the program after every pass. A refactoring proves itself by an empty difference (exit 0); otherwise the
# differences are printed (exit 1), and at the end how many models differ in which file.
#
#   tools/compare_code.sh [--packages] [--passes] BEFORE/kiln AFTER/kiln [MODEL.pt2…]
#
# Default: the models in tests/cases and examples, and those of the corpus in tests/corpus_slice.txt where it is at hand.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
usage="usage: tools/compare_code.sh [--packages] [--passes] BEFORE/kiln AFTER/kiln [MODEL.pt2…]"
packages=0 passes=0
while [[ ${1:-} == --* ]]; do
  case $1 in
    --packages) packages=1 ;;
    --passes) passes=1 ;;
    *) echo "$usage" >&2; exit 2 ;;
  esac
  shift
done
before=${1:?$usage}
after=${2:?$usage}
shift 2
targets=x86-64-v4,x86-64-v3,generic
work=$(mktemp -d "${TMPDIR:-/tmp}/kiln_compare.XXXXXX")
trap 'rm -rf "$work"' EXIT

if [ $# -eq 0 ]; then
  set -- "$here"/tests/cases/*/model.pt2 "$here"/examples/*/model.pt2
  corpus=${KILN_CORPUS:-$here/../shared/corpus}
  if [ -d "$corpus" ]; then
    while read -r name; do
      [ -f "$corpus/$name/model.pt2" ] && set -- "$@" "$corpus/$name/model.pt2"
    done < <(grep -v '^#' "$here/tests/corpus_slice.txt")
  fi
fi

# The files of one model from one build; a model that does not compile has its error as its only file.
generate() {
  local kiln=$1 model=$2 to=$3
  mkdir -p "$to"
  "$kiln" compile "$model" --target "$targets" --generate "$to" > /dev/null 2> "$to/messages.txt" || true
  [ "$passes" = 0 ] ||
    { "$kiln" compile "$model" --dump-after all 2>&1 || true; } | sed -E 's/^(# after [^ ]+) \([^)]*\)/\1/' > "$to/passes.txt"
  [ "$packages" = 0 ] || "$kiln" compile "$model" -o "$to/package.pt2" > /dev/null 2>&1 || true
}

one() {
  local model=$1 number=$2
  generate "$before" "$model" "$work/before/$number"
  generate "$after" "$model" "$work/after/$number"
  if ! diff -ruN --label before --label after "$work/before/$number" "$work/after/$number" > "$work/diff_$number"; then
    echo "$model" > "$work/different_$number"
  fi
  for file in $(cd "$work/before/$number" && find . -type f) $(cd "$work/after/$number" && find . -type f); do
    cmp -s "$work/before/$number/$file" "$work/after/$number/$file" || echo "${file#./}" >> "$work/kinds_$number"
  done
  rm -rf "$work/before/$number" "$work/after/$number"
}
export -f one generate
export before after targets work packages passes

number=0
for model in "$@"; do
  number=$((number + 1))
  printf '%s\0%s\0' "$model" "$number"
done | xargs -0 -n 2 -P "$(nproc)" bash -c 'one "$1" "$2"' _

different=0
for mark in "$work"/different_*; do
  [ -e "$mark" ] || continue
  echo "==== $(cat "$mark")"
  cat "$work/diff_${mark##*_}"
  different=$((different + 1))
done
for kinds in "$work"/kinds_*; do [ ! -e "$kinds" ] || sort -u "$kinds"; done | sort | uniq -c | sort -rn | sed 's/^/differs: /'
echo "$# models, $different different"
[ "$different" -eq 0 ]
