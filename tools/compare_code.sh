#!/usr/bin/env bash
# Shows what a change does to the compiler's results: compiles a set of models with two builds of the command and compares
# the program after every pass. A refactoring proves itself by an empty difference (exit 0); otherwise the differences
# are printed (exit 1).
#
#   tools/compare_code.sh BEFORE/kiln AFTER/kiln [MODEL.pt2…]      default: the models in tests/cases and examples
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
before=${1:?usage: tools/compare_code.sh BEFORE/kiln AFTER/kiln [MODEL.pt2…]}
after=${2:?usage: tools/compare_code.sh BEFORE/kiln AFTER/kiln [MODEL.pt2…]}
shift 2
[ $# -gt 0 ] || set -- "$here"/tests/cases/*/model.pt2 "$here"/examples/*/model.pt2

# The text of a model after each pass, without the times; a model that does not compile has its error as its text.
passes() { { "$1" compile "$2" --dump-after all 2>&1 || true; } | sed -E 's/^(# after [^ ]+) \([^)]*\)/\1/'; }

different=0
for model in "$@"; do
  if ! text=$(diff -u --label "before: $model" --label "after: $model" <(passes "$before" "$model") <(passes "$after" "$model")); then
    printf '%s\n' "$text"
    different=$((different + 1))
  fi
done
echo "$# models, $different different"
[ "$different" -eq 0 ]
