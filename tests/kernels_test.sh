#!/usr/bin/env bash
# kernels_test.sh KILN SOURCE_DIR: compares the generated C++ of the cases in tests/kernels/list.txt, without its prelude,
# with what is kept there. With KILN_UPDATE_KERNELS=1 it writes it instead.
set -euo pipefail
kiln=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
while read -r name target; do
  [[ -z $name || $name == \#* ]] && continue
  kept=$source/tests/kernels/$name.$target.kernels
  device=cpu
  [[ $target == sm_* ]] && device=cuda
  "$kiln" compile "$source/tests/cases/$name/model.pt2" --device "$device" --target "$target" --generate "$work/$name" > /dev/null 2> "$work/messages" ||
    { cat "$work/messages"; echo "FAIL $name $target: not generated"; failed=$((failed + 1)); continue; }
  # From the first kernel on, without the table at the end.
  for unit in "$work/$name/$target"/kernels_*.c*; do
    awk '/^extern "C" __(attribute|global)__/ { on = 1 } /^extern "C" \{/ { on = 0 } on' "$unit"
  done > "$work/now.cpp"
  if [ "${KILN_UPDATE_KERNELS:-}" = 1 ]; then
    cp "$work/now.cpp" "$kept"
  elif diff -u "$kept" "$work/now.cpp"; then
    passed=$((passed + 1))
  else
    echo "FAIL $name $target: other kernels than those kept in tests/kernels (KILN_UPDATE_KERNELS=1 writes them)"
    failed=$((failed + 1))
  fi
done < "$source/tests/kernels/list.txt"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
