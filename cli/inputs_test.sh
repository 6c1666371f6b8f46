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

# A case's inputs are lists: names there are not silently taken by position.
cp -r "$source_dir/tests/cases/mlp" "$work/case"
cp "$files/names.pt" "$work/case/inputs_0.pt"
expect case-with-names 1 out 'is a dictionary; a case has flat lists' -- check "$work/case" --backend interpret

finish
