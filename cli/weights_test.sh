#!/usr/bin/env bash
# --weights: values for a package's weights from a file, for packages with weights, packed ones (freezing) and none.
#   weights_test.sh KILN SOURCE_DIR
set -uo pipefail
kiln=$1
source_dir=$2
source "$(dirname "$0")/test_helpers.sh"
cd "$work" || exit 1
files=$source_dir/tests/input_files

expect compile 0 out 'kernel' -- compile "$files/weighted.pt2" -o whole.pt2
expect compile-frozen 0 out 'kernel' -- compile "$files/weighted.pt2" -o frozen.pt2 --config freezing=1
expect compile-without 0 out 'kernel' -- compile "$files/weighted.pt2" -o without.pt2 --config aot_inductor.package_constants_in_so=0
expect other-values 1 out 'DIFFERS' -- compare whole.pt2 "$files/weights_expected.pt"
for package in whole frozen without; do
  for file in weights.pt weights.npz weights.safetensors; do
    expect "$package-$file" 0 out '^1 output, equal' -- compare $package.pt2 "$files/weights_expected.pt" --weights "$files/$file"
  done
  expect "$package-bisect" 0 out 'no divergence' -- bisect $package.pt2 --weights "$files/weights.pt"
  expect "$package-bench" 0 out '^latency' -- bench $package.pt2 --count 3 --warmup 0 --kernels --weights "$files/weights.pt"
  expect "$package-profile" 0 out '^cpp_' -- profile $package.pt2 --runs 1 --weights "$files/weights.pt"
done
expect run 0 out '^output 0' -- run whole.pt2 --weights "$files/weights.pt" -o given.pt
expect run-is-compare 0 out '^1 output, equal' -- compare given.pt "$files/weights_expected.pt"
require unused-is-said grep -q '^note: .*weights.pt has 1 name that the package has no use for: another.model$' <("$kiln" run whole.pt2 --weights "$files/weights.pt" 2>&1)
expect lacking 0 err '^note: .* lacks 1 weight; the package.s own are used: linear.bias$' -- run whole.pt2 --weights "$files/weights_lacking.pt"
expect lacking-both 1 err 'K0720.*linear.bias$' -- run without.pt2 --weights "$files/weights_lacking.pt"
expect none-given 1 err 'K0720' -- run without.pt2
require what-to-do-is-said grep -q '^note: --weights F gives them' err
expect not-by-name 1 err 'K0157.*no names' -- run whole.pt2 --weights "$files/flat.pt"
expect a-number 1 err 'K0157.*linear.bias.*no tensor' -- run whole.pt2 --weights "$files/bad_weights_number.pt"
expect other-size 1 err 'linear.bias' -- run whole.pt2 --weights "$files/bad_weights_size.pt"
expect other-model 1 err 'K0705.*no weight of the model' -- run whole.pt2 --weights "$files/names.pt"
expect no-file 1 err 'K0101' -- run whole.pt2 --weights nothing.pt
expect destroys-no-weights 1 err 'K0193' -- run whole.pt2 --weights given.pt -o given.pt
finish
