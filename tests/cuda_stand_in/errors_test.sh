#!/usr/bin/env bash
# errors_test.sh KILN SOURCE_DIR: packages for a GPU where something is missing or fails, by the stand-ins. Each prints
# one line; nothing may crash, and the message says what to do.
set -uo pipefail
kiln=$1 source=$2
stand_in=$source/tools/with_cuda_stand_in.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
expect() {  # name status pattern command…
  local name=$1 status=$2 pattern=$3
  shift 3
  "$@" > "$work/out" 2>&1
  local got=$?
  if [ $got -eq "$status" ] && grep -Eq "$pattern" "$work/out"; then
    passed=$((passed + 1))
  else
    echo "FAIL $name: status $got, wanted $status with '$pattern':"
    head -5 "$work/out"
    failed=$((failed + 1))
  fi
}
model=$source/tests/cases/mlp/model.pt2
compile() { "$stand_in" "$kiln" compile "$model" --device cuda "$@"; }
expect compiles 0 'kernels' compile --target sm_80,sm_90a -o "$work/mlp.pt2"
expect inspects 0 'sm_90a' "$kiln" inspect "$work/mlp.pt2"
expect runs 0 'output 0: float32' "$stand_in" "$kiln" run "$work/mlp.pt2"
expect first-of-two-devices 0 'output 0' env KILN_STAND_IN_GPUS=2 "$stand_in" "$kiln" run "$work/mlp.pt2"
expect second-of-two-devices 0 'output 0' env KILN_STAND_IN_GPUS=2 "$stand_in" "$kiln" run "$work/mlp.pt2" --device-index 1
expect no-such-gpu 1 'K0774.*no GPU 3' "$stand_in" "$kiln" run "$work/mlp.pt2" --device-index 3
expect no-gpu 1 'K0774' env KILN_STAND_IN_GPUS=0 "$stand_in" "$kiln" run "$work/mlp.pt2"
expect no-memory 1 'K0650' env KILN_STAND_IN_MEMORY=0 "$stand_in" "$kiln" run "$work/mlp.pt2"
expect newer-only 0 'kernels' compile --target sm_100 -o "$work/new.pt2"
expect another-architecture 1 'K0775.*sm_100.*sm_90' "$stand_in" "$kiln" run "$work/new.pt2"
expect older-without-ptx 0 'kernels' compile --target sm_80 -o "$work/old.pt2"
expect fails-to-compile 1 'K0771.*aten.relu|K0771' compile --config triton.inject_relu_bug_TESTING_ONLY=compile_error -o "$work/bad.pt2"
# A driver is on few machines that run this.
if ! ldconfig -p 2> /dev/null | grep -q 'libcuda.so.1'; then
  expect no-driver 1 'K0773.*no NVIDIA driver' "$kiln" run "$work/mlp.pt2"
fi
for at in $(grep -abo KILNGPU "$work/mlp.pt2" | cut -d: -f1); do
  printf 'x' | dd of="$work/mlp.pt2" bs=1 seek="$at" conv=notrunc 2> /dev/null
done
expect damaged 1 'K0[0-9]+' "$stand_in" "$kiln" run "$work/mlp.pt2"
# Tools on a package that was compiled without flags.
expect compiles-again 0 'kernels' compile --target sm_90a -o "$work/tools.pt2"
expect bisects 0 'no divergence' "$stand_in" "$kiln" bisect "$work/tools.pt2"
expect profiles 0 'this GPU, by its clocks' "$stand_in" "$kiln" profile "$work/tools.pt2"
expect saves 0 'output 0' env AOT_INDUCTOR_DEBUG_INTERMEDIATE_VALUE_PRINTER=1 KILN_SAVE_DIR="$work/saved" "$stand_in" "$kiln" run "$work/tools.pt2"
expect saved-names 0 'before_launch_cuda_.*_cuda:0\.pt' ls "$work/saved"
expect checks-bounds 0 'output 0' "$stand_in" "$kiln" run "$work/tools.pt2" --config check_bounds=1
expect waits-for-launches 0 'each launch is waited for' env CUDA_LAUNCH_BLOCKING=1 "$stand_in" "$kiln" run "$work/tools.pt2" --config triton.cudagraphs=1
expect compiles-fault 0 'kernels' compile --target sm_90a --config triton.inject_relu_bug_TESTING_ONLY=runtime_error -o "$work/fault.pt2"
expect minifies 0 'kernel body.*cuda_' env -C "$work" "$(realpath "$stand_in")" "$(realpath "$kiln")" minify "$work/fault.pt2"
# The numbers of a kernel's error: which element, which line.
expect compiles-embedding 0 'kernel' "$stand_in" "$kiln" compile "$source/tests/cases/embedding/model.pt2" --device cuda -o "$work/e.pt2"
bad=$(ls "$source"/tests/cases/embedding/bad_inputs_*.pt | tail -1)
expect raises 1 'error\[K06' "$stand_in" "$kiln" run "$work/e.pt2" --inputs "$bad"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
