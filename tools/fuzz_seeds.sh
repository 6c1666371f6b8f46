#!/usr/bin/env bash
# tools/fuzz_seeds.sh [KILN]: makes the plans in tests/fuzz_seeds/{plan,package} anew, after a change of the plan's format: the
# readers refuse another version at once, and fuzzing from there finds nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
kiln=${1:-build/release/bin/kiln}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

make_seed() {
  local case=$1 folder
  shift
  "$kiln" compile "tests/cases/$case/model.pt2" --target generic --generate "$work/$case" >/dev/null
  for folder in "$@"; do cp "$work/$case/generic/plan" "tests/fuzz_seeds/$folder/$case.plan"; done
}

make_seed mlp plan package
make_seed counter plan package  # writes a buffer of its own
make_seed cond plan             # has blocks
