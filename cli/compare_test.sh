#!/usr/bin/env bash
# `kiln compare`: packages with packages, with saved outputs, and saved outputs with each other.
#   compare_test.sh KILN SOURCE_DIR
set -uo pipefail
kiln=$1
source_dir=$2
source "$(dirname "$0")/test_helpers.sh"
cd "$work" || exit 1
cases=$source_dir/tests/cases
compile() { "$kiln" compile "$cases/$1/model.pt2" -o "$2.pt2" "${@:3}" >/dev/null 2>&1 || echo "FAIL cannot compile $1"; }
compile mlp a
compile mlp b --target generic
compile mlp wrong --config inject_fault_TESTING_ONLY=accuracy:relu
compile mutated_input mutated
compile counter counter
compile add_bf16 bf16
"$kiln" compile "$source_dir/tests/docs/keyed.pt2" -o keyed.pt2 >/dev/null

# ---- two packages
expect same 0 out '^1 output, equal$' -- compare a.pt2 a.pt2
expect other-target 0 out '^1 output, equal' -- compare a.pt2 b.pt2
expect wrong 1 out '^1 of 1 output differs$' -- compare a.pt2 wrong.pt2
require says-what grep -Eq '^output 0: float32\[8, 1\]: DIFFERS: [1-8] of 8 values outside of the tolerance \(rtol 1.3e-06, atol 1e-05\); mean difference ' out
require says-where grep -Eq '^  at \[[0-7], 0\]: [0-9.]+ and [0-9.]+, off by [0-9.e-]+, relative [0-9.e-]+$' out
require three-places test "$(grep -c '^  at' out)" = 3
expect top 1 out '^  at' -- compare a.pt2 wrong.pt2 --top 1
require one-place test "$(grep -c '^  at' out)" = 1
expect tolerance 0 out 'within the tolerance' -- compare a.pt2 wrong.pt2 --rtol 1 --atol 1
expect quiet 1 out '^1 of 1 output differs$' -- compare a.pt2 wrong.pt2 --quiet
require quiet-is-a-line test "$(wc -l <out)" = 1
expect json 1 out '"equal": false' -- compare a.pt2 wrong.pt2 --json -
require json-alone test "$(head -c 1 out)" = '{'
for key in kind a b inputs outputs largest index absolute relative outside_tolerance; do require "json-has-$key" grep -q "\"$key\":" out; done
expect shape 0 out 'float32\[100, 1\]: equal' -- compare a.pt2 a.pt2 --shape s77=100
expect inputs 0 out 'equal' -- compare a.pt2 a.pt2 --inputs "$cases/mlp/inputs_1.pt"
expect bad-inputs 1 err 'K0616' -- compare a.pt2 a.pt2 --inputs "$cases/mlp/bad_inputs_0.pt"
expect other-model 1 err '^note: this is of keyed.pt2:$' -- compare a.pt2 keyed.pt2
require other-model-says-why grep -q 'Error: input_handles.0.: unmatched dim value' err
require other-model-is-said grep -q '^note: these are not of one model .*: a.pt2 takes x float32\[s77, [0-9]*\] and has 1 output; keyed.pt2 takes x float32\[2, 3\] and has 3 outputs' err
expect one-model 0 out '^1 output, equal' -- compare a.pt2 b.pt2
require one-model-is-not-said is_empty err
expect after-the-call 0 out '^input cache after the call: float32\[5, 4\]: equal' -- compare mutated.pt2 mutated.pt2
expect buffers 0 out '^buffer .* after the call: ' -- compare counter.pt2 counter.pt2

# ---- a package and saved outputs, as Kiln and as PyTorch write them
expect eager 0 out '^1 output, equal' -- compare a.pt2 "$cases/mlp/expected_0.pt" --inputs "$cases/mlp/inputs_0.pt"
expect eager-first 0 out '^1 output, equal' -- compare "$cases/mlp/expected_0.pt" a.pt2 --inputs "$cases/mlp/inputs_0.pt"
expect other-inputs 1 out 'DIFFERS' -- compare a.pt2 "$cases/mlp/expected_0.pt" --inputs "$cases/mlp/inputs_1.pt"
for file in y.pt y.npz y.npy y.safetensors; do
  "$kiln" run a.pt2 -o $file >/dev/null
  expect "saved-$file" 0 out '^1 output, equal$' -- compare a.pt2 $file
done
for file in k.pt k.npz k.safetensors; do
  "$kiln" run keyed.pt2 -o $file >/dev/null
  expect "keyed-$file" 0 out '^output 0 last_hidden_state: .*: equal' -- compare keyed.pt2 $file
done
expect wrong-names 1 err 'K0736.*its names are not those of the outputs.*expected last_hidden_state' -- compare keyed.pt2 "$source_dir/tests/input_files/bad_name.npz"
"$kiln" run bf16.pt2 -o half.safetensors >/dev/null
expect bf16 0 out 'bfloat16.*: equal' -- compare bf16.pt2 half.safetensors

# ---- two files
expect files 0 out '^1 output, equal$' -- compare y.pt y.npz
expect files-named 0 out 'equal$' -- compare k.npz k.safetensors
expect files-of-others 1 err 'K0736.*has names and .* has none' -- compare k.npz "$cases/mutated_input/expected_0.pt"
expect files-differ 1 out 'DIFFERS: sizes are ' -- compare y.pt "$cases/mlp/expected_1.pt"
expect more-outputs 1 out '^output 1: DIFFERS: only in ' -- compare y.pt "$cases/mutated_input/expected_0.pt"
expect inputs-of-files 2 err '--inputs is for packages' -- compare y.pt y.npz --inputs y.pt

# Near in relative terms, further in absolute ones: not what is outside of the tolerance.
# array FILE BYTES: three numbers of float32.
array() {
  printf '\x93NUMPY\x01\x00v\x00%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }" >"$1"
  printf '%b' "$2" >>"$1"
}
array ca.npy '\x00\x00\xc8\x42\x6f\x12\x83\x3a\x00\x00\xa0\x40' # 100, 0.001, 5
array cb.npy '\x0d\x00\xc8\x42\x11\x01\x87\x3a\x00\x00\xa0\x40' # 100.0001, 0.00103, 5
for top in 1 3; do
  expect "furthest-over-$top" 1 out '^  at \[1\]: 0.001 and 0.00103, off by 3e-05' -- compare ca.npy cb.npy --top $top
  require "only-what-is-outside-$top" test "$(grep -c '^  at' out)" = 1
done
expect within 0 out '^  at \[0\]: ' -- compare ca.npy cb.npy --atol 1e-3 --rtol 0

# ---- what is neither
expect a-model 1 err 'K0735.*neither a package of Kiln nor a file of saved outputs' -- compare a.pt2 "$cases/mlp/model.pt2"
expect missing 1 err 'K0101' -- compare a.pt2 nothing.pt
expect one 2 err "'kiln compare' needs A B" -- compare a.pt2
echo text >text.pt
expect text 1 err 'error\[K0' -- compare a.pt2 text.pt

finish
