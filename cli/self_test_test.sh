#!/usr/bin/env bash
# The test that a package carries: put in by `kiln compile --bundle`, run by `kiln check PKG` and by kiln_self_test.
#   self_test_test.sh KILN SOURCE_DIR RUNTIME_LIBRARY
set -uo pipefail
kiln=$1
source_dir=$2
runtime=$3
source "$(dirname "$0")/test_helpers.sh"
cd "$work" || exit 1
cases=$source_dir/tests/cases
bundle() { "$kiln" compile "$cases/$1/model.pt2" -o "$2.pt2" --bundle "${3:-$cases/$1}" "${@:4}" >/dev/null 2>err || { echo "FAIL cannot bundle $1"; cat err; }; }

# ---- cases of every kind: dynamic sizes, mutated inputs, state and sequences, outputs with keys, bad inputs
for name in mlp mutated_input counter cond nonzero add_bf16 shared_outputs expanded_constants; do
  bundle $name $name
  expect "check-$name" 0 out '^1 passed, 0 failed, 0 skipped$' -- check $name.pt2
done
expect inspect 0 out 'data/kiln/model/test/inputs_0.pt' -- inspect mlp.pt2 --verify
require everything-is-in-it grep -q 'test/bad_inputs_0.pt' out
expect runs-as-ever 0 out '^output 0' -- run mlp.pt2
bundle mlp again
require equal-inputs-give-equal-bytes cmp -s mlp.pt2 again.pt2
"$kiln" compile "$cases/mlp/model.pt2" -o plain.pt2 >/dev/null
expect several 0 out '^2 passed, 0 failed, 0 skipped$' -- check mlp.pt2 counter.pt2 -j 1
cp mlp.pt2 mlp.package
expect any-name 0 out '^1 passed' -- check mlp.package
bundle mlp stripped "$cases/mlp" --strip-debug
rm stripped.pt2.debug
expect without-debug-section 0 out '^1 passed' -- check stripped.pt2
kiln_path='' expect without-a-compiler 0 out '^1 passed' -- check mlp.pt2
expect json 0 out '"calls": [1-9]' -- check mlp.pt2 --json -

# ---- what is wrong is found
bundle mlp faulty "$cases/mlp" --config inject_fault_TESTING_ONLY=accuracy:relu
expect faulty 1 out 'FAIL faulty.pt2: self-test: .*K0742.*the self-test failed: call 0: output 0: 8 of 8 values differ, worst at' -- check faulty.pt2
expect tolerance 0 out '^1 passed' -- check faulty.pt2 --atol 10
cp -r "$cases/mlp" lying
cp lying/expected_1.pt lying/expected_0.pt
bundle mlp lying lying
expect lying 1 out 'K0742.*call 0: output 0: sizes are \[8, 1\], expected' -- check lying.pt2
cp -r "$cases/mlp" accepting
cp accepting/inputs_0.pt accepting/bad_inputs_0.pt
bundle mlp accepting accepting
expect accepting 1 out 'K0742.*bad_inputs_0: these inputs must be refused' -- check accepting.pt2
expect no-test 1 out 'K0739.*plain.pt2 carries no test: .kiln compile --bundle DIR.' -- check plain.pt2
expect other-backend 1 out 'a package is run as it is' -- check mlp.pt2 --backend interpret
# One byte of each of its files: found by the checksum, never by a crash or a wrong verdict.
damage() {
  cp mlp.pt2 damaged.pt2
  python_offset=$(grep -abo "test/$1" mlp.pt2 | head -1 | cut -d: -f1)
  printf '\377' | dd of=damaged.pt2 bs=1 seek=$(((python_offset / 64 + 2) * 64 + 40)) conv=notrunc status=none
}
for file in inputs_0.pt expected_0.pt expected_1.pt bad_inputs_0.pt; do
  damage $file
  expect "damaged-$file" 1 out "K0(741|115).*(its checksum|checksum|damaged)" -- check damaged.pt2
done

# ---- what cannot be bundled is said before anything is compiled
compile_bundle() { expect "$1" "$2" err "$3" -- compile "$cases/mlp/model.pt2" -o x.pt2 --bundle "$4"; }
mkdir empty
compile_bundle no-directory 1 'K0170.*no such directory' nothing
compile_bundle no-calls 1 'K0172.*inputs_0.pt.*is missing' empty
compile_bundle another-model 1 'K0738.*is not for this model: ' "$cases/mutated_input"
cp -r "$cases/mlp" gap
mv gap/inputs_1.pt gap/inputs_7.pt
compile_bundle a-gap 1 'K0172.*belongs to no call' gap
require nothing-was-written not test -e x.pt2
expect generate-and-bundle 2 err '--generate makes no package' -- compile "$cases/mlp/model.pt2" --generate g --bundle "$cases/mlp"
# A model beside the files is not needed where the lists are flat.
mkdir flat
cp "$cases"/mlp/{inputs,expected}_0.pt flat
bundle mlp flat flat
expect flat 0 out '^1 passed' -- check flat.pt2

# ---- the C interface: the deployed runtime tests itself
cat >program.c <<'C'
#include <stdio.h>
#include "kiln/kiln.h"
int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    kiln_model* model;
    if (kiln_load(arguments[i], NULL, &model) != KILN_OK) return fprintf(stderr, "%s\n", kiln_last_error()), 9;
    kiln_self_test_summary summary = {sizeof summary, 0, 0};
    kiln_status status = kiln_self_test(model, &summary);
    printf("%s: status %d, %s, %d calls, %s\n", arguments[i], (int)status, status ? kiln_last_error_code() : "ok", (int)summary.calls,
           status ? kiln_last_error() : summary.worst <= 1 ? "within the tolerance" : "beyond it");
    if (kiln_self_test(model, NULL) != status) return 8;
    kiln_model_free(model);
  }
  /* The same package from memory. */
  static char bytes[1 << 20];
  FILE* file = fopen(arguments[1], "rb");
  size_t size = fread(bytes, 1, sizeof bytes, file);
  kiln_model* model;
  if (kiln_load_memory(bytes, size, NULL, &model) != KILN_OK) return fprintf(stderr, "%s\n", kiln_last_error()), 6;
  printf("from memory: status %d\n", (int)kiln_self_test(model, NULL));
  kiln_model_free(model);
  return kiln_self_test(NULL, NULL) == KILN_ERROR_ARGUMENT ? 0 : 7;
}
C
library_dir=$(dirname "$runtime")
if [[ -f $library_dir/libkiln_tools.so ]]; then
  require c-builds cc -std=c11 -Wall -Werror program.c -I "$source_dir/include" -L "$library_dir" -lkiln_runtime -Wl,-rpath,"$library_dir" -o program
  require c-runs eval './program mlp.pt2 mutated_input.pt2 counter.pt2 faulty.pt2 plain.pt2 damaged.pt2 >out 2>err'
  for line in '^mlp.pt2: status 0, ok, [1-9][0-9]* calls, within the tolerance$' '^mutated_input.pt2: status 0, ok' '^counter.pt2: status 0, ok' \
    '^faulty.pt2: status 4, K0742, 0 calls, error.K0742.: the self-test failed: call 0: output 0: 8 of 8' '^plain.pt2: status 3, K0739' '^from memory: status 0$' '^damaged.pt2: status 3, K0(741|115)'; do
    require "c-says: $line" grep -Eq "$line" out
  done
  cat >program.cpp <<'CPP'
#include <cstdio>
#include "kiln/kiln.hpp"
int main(int, char** arguments) {
  std::printf("%d calls\n", static_cast<int>(kiln::Model(arguments[1]).self_test().calls));
  try {
    kiln::Model(arguments[2]).self_test();
  } catch (const kiln::Exception& error) {
    std::printf("%s\n", error.what());
  }
}
CPP
  require cpp-builds c++ -std=c++17 -Wall -Werror program.cpp -I "$source_dir/include" -L "$library_dir" -lkiln_runtime -Wl,-rpath,"$library_dir" -o program_cpp
  require cpp-runs eval './program_cpp mlp.pt2 faulty.pt2 >out 2>err'
  require cpp-passes grep -Eq '^[1-9][0-9]* calls$' out
  require cpp-throws grep -q 'K0742.*the self-test failed: call 0' out
  # Without the tools it says what is missing.
  mkdir alone
  cp -a "$library_dir"/libkiln_runtime.so* alone/
  require c-alone-builds cc -std=c11 program.c -I "$source_dir/include" -L alone -lkiln_runtime -Wl,-rpath,"$work/alone" -o program_alone
  require c-alone eval './program_alone mlp.pt2 plain.pt2 >out 2>err'
  require c-alone-says grep -q 'mlp.pt2: status 5, K0743, .*needs libkiln_tools.so, which was not found' out
  require c-alone-plain grep -q 'plain.pt2: status 3, K0739' out
fi

finish
