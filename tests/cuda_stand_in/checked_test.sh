#!/usr/bin/env bash
# checked_test.sh KILN SOURCE_DIR: tools that look into packages for a GPU: bisect and profile, and check_bounds. Their kernels are built again with every access
# checked, by an NVRTC that puts a fault into one of them (faulty_nvrtc.cpp): the kernel, the buffer, the place and the line
# must be named, and a package without a fault must give what it gives without checks.
set -uo pipefail
kiln=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=${KILN_BINARY_DIR:-$(dirname "$kiln")/..}
stand_in=$source/tools/with_cuda_stand_in.sh
real=${KILN_FAULTY_NVRTC:-$build/lib/stand_in/libnvrtc.so}
for variable in $(compgen -e KILN_ | grep -v KILN_CACHE_DIR); do unset "$variable"; done
# What is built while a package runs is kept in the user's cache: here with faults in it, and so in one of the test's own.
export XDG_CACHE_HOME=$work/cache
passed=0 failed=0
run() { KILN_BINARY_DIR=$build "$stand_in" "$@" 2>&1 | grep -v 'environment variable KILN_'; }
fail() {
  echo "FAIL $1"
  failed=$((failed + 1))
}

# Every case's kernels can be checked, and nothing of them is outside.
clean() {
  local model=$1 package=$work/$1.pt2
  run "$kiln" compile "$source/tests/cases/$model/model.pt2" --device cuda --target sm_90a -o "$package" --quiet > /dev/null
  run "$kiln" run "$package" --config check_bounds=1 > "$work/out"
  if grep -qE 'not checked|error\[' "$work/out"; then
    fail "$model: $(head -c 1500 "$work/out")"
  else
    passed=$((passed + 1))
  fi
}
for model in mlp softmax index picture products_bf16 products_any_f32 rows_520_bf16 long_sums; do clean "$model"; done

# Each kernel again, on the values that a run saved.
run "$kiln" run "$work/mlp.pt2" --config aot_inductor.debug_intermediate_value_printer=1 --config intermediate_value_dir="$work/saved" > /dev/null
for file in "$work"/saved/cuda_*.step.json; do
  kernel=$(basename "$file" .step.json)
  run "$kiln" replay "$work/mlp.pt2" --kernel "$kernel" --from "$work/saved" > "$work/out"
  if grep -q ' is as it was saved' "$work/out"; then passed=$((passed + 1)); else fail "replay of $kernel: $(head -c 500 "$work/out")"; fi
done

# model  kernel's name, in part  what is replaced in it  by what  what must be said
outside() {
  local model=$1 kernel=$2 from=$3 to=$4 says=$5
  KILN_FAULTY_KERNEL=" cuda_$kernel" KILN_FAULTY_FROM=$from KILN_FAULTY_TO=$to KILN_FAULTY_NVRTC=$real \
    KILN_FAULTY_NOTE=$work/noted XDG_CACHE_HOME=$work/cache_$passed$failed KILN_NVRTC=$build/lib/stand_in/libfaulty_nvrtc.so \
    LD_LIBRARY_PATH=$build/lib/stand_in "$kiln" run "$work/$model.pt2" --config check_bounds=1 > "$work/out" 2>&1
  if [ ! -f "$work/noted" ]; then
    fail "$model: '$from' is not in $kernel"
  elif ! grep -qE "error\[K0644\]: the code of kernel cuda_$kernel[a-z0-9_]* $says" "$work/out" ||
    ! grep -q -- '--> ' "$work/out"; then
    fail "$model: no '$says' of $kernel in: $(head -c 1500 "$work/out")"
  else
    passed=$((passed + 1))
  fi
  rm -f "$work/noted"
}
outside mlp fused_linear_0 'k_get_f32\(b0 \+ ' '$&-1 + ' 'reads 4 bytes of buffer [a-z_0-9]* \(float32 .*\) that begin 4 bytes before its start'
outside mlp fused_relu_linear_sigmoid_1 'k_set_f32\(b[0-9]* \+ ' '$&1000 + ' 'writes 4 bytes of buffer sigmoid'
outside softmax fused_amax_0 'k_set_f32\(b[0-9]* \+ ' '$&(1l << 40) + ' 'writes 4 bytes of buffer'
outside products_bf16 mm_linear_relu_0 'left_from\[e\] \+ ' '$&(1l << 30) + ' 'reads 16 bytes of buffer'
outside products_bf16 mm_linear_relu_0 'gpu_put\(b[0-9]* \+ ' '$&100000 + ' 'writes 16 bytes of buffer'
# model  kernel's name  what is replaced in it  by what  the operator that bisecting must name: the package's code has the
# fault, and so has what is built again with the values between the operators stored.
inside() {
  local model=$1 kernel=$2 from=$3 to=$4 operator=$5
  faulty() {
    KILN_FAULTY_KERNEL=" cuda_$kernel(" KILN_FAULTY_FROM=$from KILN_FAULTY_TO=$to KILN_FAULTY_NVRTC=$real \
      KILN_CACHE_DIR=$work/inside XDG_CACHE_HOME=$work/inside KILN_NVRTC=$build/lib/stand_in/libfaulty_nvrtc.so \
      LD_LIBRARY_PATH=$build/lib/stand_in "$kiln" "$@" 2>&1
  }
  faulty compile "$source/tests/cases/$model/model.pt2" --device cuda --target sm_90a -o "$work/inside.pt2" --quiet > /dev/null
  faulty bisect "$work/inside.pt2" > "$work/out"
  if grep -q "kernel cuda_$kernel " "$work/out" && grep -q 'by the instrumented rebuild' "$work/out" &&
    grep -A1 'by the instrumented rebuild' "$work/out" | grep -q "operator $operator"; then
    passed=$((passed + 1))
  else
    fail "bisect $model: no $operator by the instrumented rebuild: $(head -c 1500 "$work/out")"
  fi
}
inside mlp fused_relu_linear_sigmoid_1 'k_sigmoid\(' '0.25f + $&' aten.sigmoid.default
echo "$passed passed, $failed failed"

# Whose times a profile has.
run "$kiln" profile "$work/mlp.pt2" > "$work/out"
grep -q 'kernels timed by CUPTI$' "$work/out" || fail "profile: $(tail -n 2 "$work/out")"
KILN_STAND_IN_NO_CUPTI=1 run "$kiln" profile "$work/mlp.pt2" > "$work/out"
grep -q 'kernels timed by CUDA events$' "$work/out" || fail "profile without CUPTI: $(tail -n 2 "$work/out")"

# Without NVRTC the loops are still checked, and it is said what is not.
KILN_NVRTC=/nowhere/libnvrtc.so LD_LIBRARY_PATH=$build/lib/stand_in XDG_CACHE_HOME=$work/none \
  "$kiln" run "$work/mlp.pt2" --config check_bounds=1 > "$work/out" 2>&1
grep -q 'their machine code is not checked: ' "$work/out" || fail "without NVRTC: $(head -c 800 "$work/out")"
[ "$failed" -eq 0 ]
