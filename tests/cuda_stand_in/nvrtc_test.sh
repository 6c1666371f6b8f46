#!/usr/bin/env bash
# nvrtc_test.sh KILN SOURCE_DIR: cases compiled by the real NVRTC, where one is found, for three generations of GPUs.
set -uo pipefail
kiln=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export KILN_CACHE_DIR=$work/cache
passed=0 failed=0
for name in mlp softmax argmax index picture add_bf16 quantised_float8 operators_14 products_bf16 products_f16 products_any_f32 pictures_bf16 \
  rows_520_bf16 long_sums large_products_bf16; do
  "$kiln" compile "$source/tests/cases/$name/model.pt2" --device cuda --target sm_80,sm_90a,sm_100 -o "$work/p.pt2" \
    > "$work/out" 2>&1
  if [ $? -eq 0 ]; then
    passed=$((passed + 1))
  elif grep -q K0770 "$work/out"; then
    echo "skipped: there is no NVRTC here"
    exit 77
  else
    echo "FAIL $name: $(head -12 "$work/out")"
    failed=$((failed + 1))
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
