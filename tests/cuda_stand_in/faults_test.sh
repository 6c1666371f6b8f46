#!/usr/bin/env bash
# faults_test.sh KILN SOURCE_DIR: twelve faults in the machine code of GPU kernels (faulty_nvrtc.cpp): accesses outside of
# all memory, races, NaNs. Each tool must name the kernel that has the fault, and its source line.
# KILN_FAULTS_KEEP: a folder for the packages with a list of what is expected; nothing runs here, faults_on_gpu.sh runs
# all of them on a machine with a GPU. KILN_FAULTY_NVRTC is the real NVRTC then.
set -uo pipefail
kiln=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=${KILN_BINARY_DIR:-$(dirname "$kiln")/..}
stand_in=$source/tools/with_cuda_stand_in.sh
real=${KILN_FAULTY_NVRTC:-$build/lib/stand_in/libnvrtc.so}
for variable in $(compgen -e KILN_ | grep -v KILN_CACHE_DIR); do [ "$variable" = KILN_FAULTS_KEEP ] || unset "$variable"; done
passed=0 failed=0
fail() {
  echo "FAIL $1"
  failed=$((failed + 1))
}
run() { KILN_BINARY_DIR=$build "$stand_in" "$@" 2>&1 | grep -v 'environment variable KILN_'; }

# name  model  which of its kernels (NUMBER, or NAME:NUMBER of those with this in their name)  what is replaced  by what
# tool  what it must say besides
try() {
  local name=$1 model=$2 number=$3 from=$4 to=$5 tool=$6 says=$7 case=$source/tests/cases/$2/model.pt2
  local package=$work/$name.pt2
  run "$kiln" compile "$case" --device cuda --target sm_90a -o "$work/right.pt2" --quiet > "$work/log"
  # Kernels in the order of the run, with their lines: "[ before_launch - NAME ] run 1  LINE".
  AOT_INDUCTOR_DEBUG_INTERMEDIATE_VALUE_PRINTER=3 run "$kiln" run "$work/right.pt2" > "$work/kernels"
  local line kernel named=""
  [[ $number == *:* ]] && named=${number%:*} number=${number#*:}
  line=$(grep "^\[ before_launch - [^ ]*$named" "$work/kernels" | sed -n "${number}p")
  kernel=$(sed 's/^\[ before_launch - \([^ ]*\) .*/\1/' <<< "$line")
  line=$(sed 's/.* run [0-9]*  //' <<< "$line")
  [ -n "$kernel" ] || { fail "$name: there is no kernel $number: $(head -3 "$work/kernels")"; return; }
  KILN_FAULTY_KERNEL=" $kernel(" KILN_FAULTY_FROM=$from KILN_FAULTY_TO=$to KILN_FAULTY_NVRTC=$real \
    KILN_FAULTY_NOTE=$work/noted KILN_CACHE_DIR=$work/cache_$name KILN_NVRTC=$build/lib/stand_in/libfaulty_nvrtc.so \
    "$kiln" compile "$case" --device cuda --target sm_90a -o "$package" > "$work/log" 2>&1
  [ -f "$work/noted" ] || { fail "$name: '$from' is not in $kernel"; return; }
  rm -f "$work/noted"
  if [ -n "${KILN_FAULTS_KEEP:-}" ]; then
    mkdir -p "$KILN_FAULTS_KEEP" && cp "$package" "$KILN_FAULTS_KEEP/"
    printf '%s\t%s\t%s\t%s\t%s\n' "$name" "$tool" "$kernel" "$line" "$says" >> "$KILN_FAULTS_KEEP/list"
    passed=$((passed + 1))
    return
  fi
  case $tool in
    run) run "$kiln" run "$package" > "$work/out" ;;
    nan) TORCHINDUCTOR_NAN_ASSERTS=1 run "$kiln" run "$package" > "$work/out" ;;
    bisect) run "$kiln" bisect "$package" > "$work/out" ;;
  esac
  if ! grep -q "$says" "$work/out"; then
    fail "$name: no '$says' in: $(head -c 1200 "$work/out")"
  elif ! grep -Eq "(kernel|step) $kernel( |\$|,)" "$work/out"; then
    fail "$name: $kernel is not named: $(head -c 1500 "$work/out")"
  elif ! grep -qF -- "--> $line" "$work/out"; then
    fail "$name: the line '$line' is not named: $(head -c 1500 "$work/out")"
  else
    passed=$((passed + 1))
  fi
}

store='k_set_[a-z0-9_]*\('
load='k_get_[a-z0-9_]*\('
try first_kernel_stores_outside mlp 1 "$store" '$&(1l << 38) + ' run 'K0777'
try second_kernel_stores_outside mlp 2 "$store" '$&(1l << 38) + ' run 'K0777'
try reduction_reads_outside softmax 1 "$load" '$&(1l << 38) + ' run 'K0777'
try division_stores_outside softmax 4 "$store" '$&(1l << 38) + ' run 'K0777'
try index_reads_outside index 1 "$load" '$&(1l << 38) + ' run 'K0777'
try tile_reads_outside picture 1 "$load" '$&(1l << 38) + ' run 'K0777'
try sigmoid_of_nan mlp 2 'k_sigmoid\(' '$&(0.0f / 0.0f) + ' nan 'K0637'
try product_of_nan mlp 1 "$load" '(0.0f / 0.0f) * $&' nan 'K0637'
try exponential_of_nan softmax 2 'exp\(' '(0.0f / 0.0f) * $&' nan 'K0637'
# Writes the part of shared memory that others still read: a race that a barrier would have to keep apart.
try first_tile_overwritten picture _mm_:1 'steps, fetch,' 'steps, [&](int s) { fetch(s + 1); },' bisect 'first divergence'
try later_tile_overwritten picture _mm_:2 'steps, fetch,' 'steps, [&](int s) { fetch(s + 1); },' bisect 'first divergence'
try reduction_without_partners softmax 2 'team_reduce<[^>]*>\((v[0-9]*),[^}]*\}\);' '$1;' bisect 'first divergence'
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
