#!/usr/bin/env bash
# --inputs in every form: lists, names, nested values; and what does not fit, which no command may bind by position.
#   inputs_test.sh KILN SOURCE_DIR
set -uo pipefail
kiln=$1
source_dir=$2
source "$(dirname "$0")/test_helpers.sh"
cd "$work" || exit 1
files=$source_dir/tests/input_files
model=$files/nested.pt2

expect compile 0 out 'kernel' -- compile "$model" -o "$work/nested.kiln.pt2"
expect compile-stripped 0 out 'kernel' -- compile "$model" -o "$work/stripped.kiln.pt2" --strip-debug
rm -f "$work/stripped.kiln.pt2.debug"
expect expected 0 out '^output 0: float32\[4\]' -- run "$work/nested.kiln.pt2" -o "$work/expected.pt"
cp "$work/out" "$work/first"
same_values() { cmp -s <(grep '^output\|^ ' "$work/first") <(grep '^output\|^ ' "$work/out"); }
for file in flat.pt flat_without_constant.pt names.pt names.npz names_without_constant.safetensors arguments.pt \
  args_and_kwargs.pt args_and_kwargs_as_lists.pt; do
  expect "run-$file" 0 out '^output 0' -- run "$work/nested.kiln.pt2" --inputs "$files/$file"
  require "same-$file" same_values
  expect "stripped-$file" 0 out '^output 0' -- run "$work/stripped.kiln.pt2" --inputs "$files/$file"
  require "stripped-same-$file" same_values
  expect "interpret-$file" 0 out '^output 0' -- interpret "$model" --inputs "$files/$file"
  require "interpret-same-$file" same_values
done
# The same files as the calls of a case, and as a package's own test.
for file in flat.pt flat_without_constant.pt arguments.pt; do
  mkdir -p "$work/case-$file"
  cp "$model" "$work/case-$file/model.pt2"
  cp "$files/$file" "$work/case-$file/inputs_0.pt"
  cp "$work/expected.pt" "$work/case-$file/expected_0.pt"
  expect "check-$file" 0 out '1 passed, 0 failed' -- check "$work/case-$file"
  expect "bundle-$file" 0 out 'kernel' -- compile "$model" -o "$work/tested.kiln.pt2" --bundle "$work/case-$file"
  expect "self-test-$file" 0 out '1 passed, 0 failed' -- check "$work/tested.kiln.pt2"
done
for file in bad_name.pt bad_name.npz bad_name.safetensors; do
  nearest="error\[K0155\]: .*no input 'prats_left'; the nearest is 'parts/left'"
  expect "run-$file" 1 err "$nearest" -- run "$work/nested.kiln.pt2" --inputs "$files/$file"
  expect "interpret-$file" 1 err "$nearest" -- interpret "$model" --inputs "$files/$file"
  expect "bisect-$file" 1 err "$nearest" -- bisect "$work/nested.kiln.pt2" --inputs "$files/$file"
  expect "profile-$file" 1 err "$nearest" -- profile "$work/nested.kiln.pt2" --inputs "$files/$file"
  expect "minify-$file" 1 err "$nearest" -- minify "$model" --inputs "$files/$file" --save-dir "$work/save"
  expect "minify-package-$file" 1 err "$nearest" -- minify "$work/nested.kiln.pt2" --inputs "$files/$file" --save-dir "$work/save"
done
expect one-more 1 err "error\[K0155\]: .*no input 'more'" -- run "$work/nested.kiln.pt2" --inputs "$files/bad_one_more.pt"
expect form 1 err 'error\[K0156\]: .*parts/pair is a list of 1, where the model takes a list of 2' -- \
  run "$work/nested.kiln.pt2" --inputs "$files/bad_form.pt"
expect form-shown 1 err 'the model takes: x, parts=\{left, pair: \[·, ·\]\}, scale, bias' -- \
  run "$work/nested.kiln.pt2" --inputs "$files/bad_form.pt"
expect constant 1 err 'unmatched value, expected: 1\.5' -- run "$work/nested.kiln.pt2" --inputs "$files/bad_constant.pt"
expect bisect 0 out '.' -- bisect "$work/nested.kiln.pt2" --inputs "$files/arguments.pt"
expect profile 0 out '.' -- profile "$work/nested.kiln.pt2" --inputs "$files/names.npz" --runs 1

# Arguments that are dataclasses, named tuples and other classes: samples of the export, and files, by the names of fields.
classes=$files/classes.pt2
expect classes-compile 0 out 'kernel' -- compile "$classes" -o "$work/classes.kiln.pt2"
expect classes-flat 0 out '^output 0: float32\[4\]' -- run "$work/classes.kiln.pt2" --inputs "$files/classes_flat.pt"
cp "$work/out" "$work/first"
expect classes-samples 0 out '^output 0' -- run "$work/classes.kiln.pt2"
require classes-samples-same same_values
expect classes-interpret 0 out '^output 0' -- interpret "$classes"
require classes-interpret-same same_values
for file in classes_args_and_kwargs.pt classes_arguments.pt classes_names.pt; do
  expect "run-$file" 0 out '^output 0' -- run "$work/classes.kiln.pt2" --inputs "$files/$file"
  require "same-$file" same_values
done
expect classes-form 1 err "the model takes: one=\{a, b: \[·, ·\]\}" -- run "$work/classes.kiln.pt2" --inputs "$files/arguments.pt"

# A case takes the same forms, and the outputs that `run -o` writes; names are never taken by position.
mkdir "$work/case"
cp "$model" "$work/case/model.pt2"
cp "$work/expected.pt" "$work/case/expected_0.pt"
for file in flat.pt names.pt arguments.pt args_and_kwargs.pt; do
  cp "$files/$file" "$work/case/inputs_0.pt"
  expect "case-$file" 0 out '1 passed' -- check "$work/case" --backend interpret
done
cp "$files/bad_name.pt" "$work/case/bad_inputs_0.pt"
cp "$files/bad_form.pt" "$work/case/bad_inputs_1.pt"
expect case-refused-by-name 0 out '1 passed' -- check "$work/case" --backend interpret
cp "$files/bad_name.pt" "$work/case/inputs_0.pt"
expect case-with-bad-names 1 out "K0155.*no input 'prats_left'" -- check "$work/case" --backend interpret
keyed=$source_dir/tests/docs/keyed.pt2
mkdir "$work/keyed"
cp "$keyed" "$work/keyed/model.pt2"
expect keyed-compile 0 out kernel -- compile "$keyed" -o "$work/keyed.kiln.pt2"
expect keyed-run 0 out 'last_hidden_state' -- run "$work/keyed.kiln.pt2" -o "$work/keyed/expected_0.pt"
unzip -p "$work/keyed.kiln.pt2" '*/data/sample_inputs/*.pt' >"$work/keyed/inputs_0.pt"
expect keyed-case 0 out '1 passed' -- check "$work/keyed" --backend compiled
cp "$work/keyed/inputs_0.pt" "$work/keyed/expected_0.pt"
expect keyed-case-notices 1 out 'FAIL' -- check "$work/keyed" --backend interpret

# Outputs that are constants come as what they are, through a package too; fields of a dataclass have their names.
expect outputs-compile 0 out kernel -- compile "$files/outputs.pt2" -o "$work/outputs.kiln.pt2"
for command in "run $work/outputs.kiln.pt2" "interpret $files/outputs.pt2"; do
  # shellcheck disable=SC2086
  expect "outputs-of-$command" 0 out '^output 0 result\.logits: float32' -- $command -o "$work/outputs.pt"
  for line in 'result.loss: float32' 'mode: "hello"' 'count: 3' 'rate: 2.5' 'flag: True' 'nothing: None'; do
    require "outputs-have-$line" grep -q "^output [1-6] $line" "$work/out"
  done
  require "text-in-the-file-of-$command" grep -aq hello "$work/outputs.pt"
done
expect outputs-inspect 0 out 'mode  *always "hello"' -- inspect "$work/outputs.kiln.pt2"
expect outputs-text-npz 1 err 'K0152.*text' -- run "$work/outputs.kiln.pt2" -o "$work/y.npz"
require outputs-before-the-run is_empty "$work/out"
expect outputs-check 0 out '1 passed' -- check "$files/outputs.pt2"

# nan_asserts looks at values of the program: what attention takes out again is none, what the program itself hides is.
expect masked-compile 0 out kernel -- compile "$files/masked.pt2" -o "$work/masked.kiln.pt2"
expect masked-row 0 out '^output 0' -- run "$work/masked.kiln.pt2" --config nan_asserts=1
expect divides-compile 0 out kernel -- compile "$files/divides.pt2" -o "$work/divides.kiln.pt2"
expect divides 1 err 'K0637.*argument div holds nan at \[1, 0\]' -- run "$work/divides.kiln.pt2" --config nan_asserts=1
require culprit-first test "$(grep -m1 -A1 -e '-->' "$work/err" | grep -c 'operator aten.div')" = 1

# A case that lacks what an input must be after the call says that, and nothing false about the program.
cp -r "$source_dir/tests/cases/mutated_input" "$work/lacks"
rm "$work"/lacks/mutated_*.pt
expect mutated-is-missing 1 out 'was changed by the call, as the program says; the case lacks a mutated_<i>.pt' -- check "$work/lacks" --backend interpret

# What a file of outputs cannot hold is said before the work.
expect npy-of-several 1 err 'K0152.*holds one tensor' -- run "$work/keyed.kiln.pt2" -o "$work/y.npy"
require npy-before-the-run is_empty "$work/out"
expect npy-of-several-interpreted 1 err 'K0152.*holds one tensor' -- interpret "$keyed" -o "$work/y.npy"
require npy-before-the-interpreter is_empty "$work/out"

# An old file of torch.save is named as what it is.
printf '\200\002\212\012l\374\234F\371 j\250P\031.\200\002M\351\003.' >"$work/old.pt"
expect old-file 1 err 'K0151.*old format of torch.save' -- run "$work/nested.kiln.pt2" --inputs "$work/old.pt"
echo "no tensors" >"$work/text.pt"
expect no-file-of-torch 1 err 'K0151.*not written by torch.save' -- run "$work/nested.kiln.pt2" --inputs "$work/text.pt"

# Keys of the result, and names of inputs, that come to the same: all are told apart, in every format.
expect colliding 0 out 'kernel' -- compile "$files/colliding.pt2" -o "$work/colliding.kiln.pt2"
for end in npz safetensors pt; do
  expect "colliding-$end" 0 out 'feat.0_1: .*103\., 203\.' -- run "$work/colliding.kiln.pt2" -o "$work/colliding.$end"
  expect "colliding-equal-$end" 0 out '5 outputs, equal' -- compare "$work/colliding.kiln.pt2" "$work/colliding.$end"
done
expect colliding-keys 0 out '  4  1_1 ' -- inspect "$work/colliding.kiln.pt2"
expect colliding-keys-of-model 0 out '  4  1_1 ' -- inspect "$files/colliding.pt2"
for file in colliding.npz colliding_flat.npz; do
  expect "inputs-$file" 0 out '5 outputs, equal' -- compare "$work/colliding.kiln.pt2" "$work/colliding.npz" --inputs "$files/$file"
done

finish
