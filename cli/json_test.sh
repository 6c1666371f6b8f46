#!/usr/bin/env bash
# --json, --quiet and `-`, of every command that has them, alike.
#   json_test.sh KILN SOURCE_DIR
set -uo pipefail
kiln=$1
source_dir=$2
source "$(dirname "$0")/test_helpers.sh"
cd "$work" || exit 1
cases=$source_dir/tests/cases
model=$cases/mlp/model.pt2
"$kiln" compile "$model" -o m.pt2 >/dev/null || exit 1
"$kiln" compile "$model" -o faulty.pt2 --config inject_fault_TESTING_ONLY=accuracy:relu >/dev/null || exit 1
"$kiln" compile "$source_dir/tests/docs/with_none.pt2" -o none.pt2 >/dev/null || exit 1

# A whole JSON document: checked by Kiln's own reader, which refuses to compare with it for being another kind.
is_document() {
  "$kiln" bench m.pt2 --count 1 --against "$1" >checked.out 2>checked.err
  grep -q "K0734.*is not what 'kiln bench --json' writes" checked.err || grep -q '^against' checked.out
}
# json NAME EXIT_CODE KEYS -- ARGS…: in a file beside the text, and on the standard output instead of it.
json() {
  local name=$1 code=$2 keys=$3
  shift 4
  expect "$name-file" "$code" out '.' -- "$@" --json file.json
  require "$name-document" is_document file.json
  require "$name-kind" grep -q "^  \"kind\": \"kiln $1\",$" file.json
  require "$name-version" grep -q '^  "version": 1,$' file.json
  expect "$name-stdout" "$code" out '^}$' -- "$@" --json -
  require "$name-only-json" test "$(head -c 1 out)" = '{'
  cp out stdout.json
  require "$name-stdout-document" is_document stdout.json
  local key
  for key in $keys; do require "$name-has-$key" grep -q "\"$key\":" stdout.json; done
}
json run 0 "package inputs outputs dtype sizes values" -- run m.pt2
json run-repeat 0 "seconds median calls" -- run m.pt2 --repeat 5
json run-none 0 "kind key" -- run none.pt2
require none-is-said grep -q '"kind": "none"' stdout.json
json interpret 0 "model outputs values" -- interpret "$model"
json inspect-model 0 "inputs outputs symbols guards weights graph hint" -- inspect "$model"
json inspect-package 0 "inputs outputs symbols guards weights steps steps_when_loaded steps_in_package origins targets target target_runs_here settings" -- inspect m.pt2
json inspect-verify 0 "sound entries crc32" -- inspect m.pt2 --verify
json profile 0 "functions machine run_seconds profiled_run_seconds steps_seconds threads arithmetic" -- profile m.pt2 --runs 2
json bisect 0 "fault steps compared_with_reference not_compared text" -- bisect m.pt2
json bisect-finding 1 "step operator difference index got expected ulps" -- bisect faulty.pt2
json check 0 "passed failed cases compile_seconds" -- check "$cases/mlp"
json compare 1 "outputs largest" -- compare m.pt2 faulty.pt2
json bench 0 "latency_seconds" -- bench m.pt2 --count 10
json cache-stat 0 "directory problem bytes entries" -- cache stat
json cache-ls 0 "name kind bytes modified" -- cache ls
json cache-clear 0 "directory bytes removed" -- cache clear --config cache_dir="$work/no_entries"
json minify-run 0 "model failure" -- minify "$model" --command run
require minify-run-fails-not grep -q '"failure": null' stdout.json
relu_bug="--config cpp.inject_relu_bug_TESTING_ONLY"
expect minify-run-finding 1 out '"code": "K0630"' -- minify "$model" --command run $relu_bug=runtime_error --json -
require minify-run-finding-document is_document out
json minify 0 "failure operators operators_before nodes minimal interrupted trials seconds repro kernel_file" -- minify "$model" $relu_bug=runtime_error
require minify-is-minimal grep -q '"minimal": true' stdout.json
require minify-says-elsewhere grep -q '^Wrote minimal repro out to repro.py$' err
"$kiln" run m.pt2 --config aot_inductor.debug_intermediate_value_printer=1 --config intermediate_value_dir=saved >out 2>err
kernel=$("$kiln" inspect m.pt2 --json - | sed -n 's/.*"name": "\(cpp_[a-z0-9_]*\)".*/\1/p' | head -1)
json replay 0 "package kernel fault made_up_inputs compared as_saved outputs values" -- replay m.pt2 --kernel "$kernel" --from saved
require replay-is-as-saved grep -q '"as_saved": true' stdout.json
"$kiln" compile "$cases/expanded_control_flow/model.pt2" -o loop.pt2 >out 2>err
"$kiln" run loop.pt2 --config aot_inductor.debug_intermediate_value_printer=1 --config intermediate_value_dir=iterations >out 2>err
looped=$(find iterations -name '*.iteration_1.step.json' | sort | head -1)
looped=$(basename "${looped%.iteration_1.step.json}")
expect replay-which-iteration 1 err "K0678.*$looped runs in a loop: .*$looped.iteration_0 … " -- replay loop.pt2 --kernel "$looped" --from iterations
expect replay-iteration 0 out ' is as it was saved' -- replay loop.pt2 --kernel "$looped.iteration_1" --from iterations
"$kiln" compile "$model" -o nan.pt2 --config inject_fault_TESTING_ONLY=nan:relu >out 2>err
"$kiln" run nan.pt2 --config nan_asserts=1 --config fault_dir=faults >out 2>err
json replay-bundle 0 "package fault build_id symbols arguments outputs" -- replay faults/fault_*.kiln.pt2
require replay-bundle-has-values grep -q '"made_up_inputs": false' stdout.json
expect values-are-the-outputs 0 out '^ +\[0\.5749[0-9]+\],$' -- run m.pt2 --json -
expect json-of-write 2 err '--json is of what inspect shows' -- inspect "$model" --write w.pt2 --json -
expect two-on-stdout 2 err 'named by two options' -- run m.pt2 --json - -o -
expect unwritable 1 err 'K0191' -- bisect m.pt2 --json none/x.json

# ---- --quiet: the last word and nothing else
quiet() {
  local name=$1 code=$2 pattern=$3
  shift 4
  expect "quiet-$name" "$code" out "$pattern" -- "$@" --quiet
  require "quiet-$name-is-a-line" test "$(wc -l <out)" = 1
  require "quiet-$name-has-no-notes" not grep -q '^note:' err
}
quiet compile 0 '^q.pt2$' -- compile "$model" -o q.pt2 --config intermediate_value_dir=x
quiet check 0 '^2 passed, 0 failed, 0 skipped$' -- check "$cases/mlp" "$cases/add"
quiet inspect 0 "^m.pt2: package of 'model'" -- inspect m.pt2
quiet verify 0 '^every entry has its checksum$' -- inspect m.pt2 --verify
quiet bisect 0 '^no divergence' -- bisect m.pt2
quiet profile 0 '^2 runs, median ' -- profile m.pt2 --runs 2 --trace t.json
quiet bench 0 '^p50 ' -- bench m.pt2 --count 10
quiet minify 0 '^Wrote minimal repro out to repro' -- minify "$model" --accuracy --config cpp.inject_relu_bug_TESTING_ONLY=accuracy --save-dir checkpoints
quiet replay-bundle 0 '^the step ran to its end$' -- replay faults/fault_*.kiln.pt2
quiet compare 1 'differs$' -- compare m.pt2 faulty.pt2
quiet run-repeat 0 '^5 calls: median' -- run m.pt2 --repeat 5
"$kiln" run m.pt2 -o y.pt -q >out 2>err
require quiet-run test $? = 0
require quiet-run-says-nothing is_empty out
require quiet-run-writes test -s y.pt
expect quiet-errors-stay 1 err 'K0101' -- run nothing.pt2 --quiet
expect quiet-check-fails-aloud 1 out '^FAIL ' -- check "$model" --config stop_after=lower --quiet
expect help-has-it 0 out '^  -q, --quiet' -- settings --help

# ---- `-`: the standard input where a file is read, the standard output where one is written
from_stdin() {
  local name=$1 file=$2 pattern=$3
  shift 4
  ran=$((ran + 1))
  if ! "$kiln" "$@" <"$file" >out 2>err || ! grep -Eq -- "$pattern" out; then
    echo "FAIL from stdin: $name: kiln $* <$file"
    head -3 out err
    failures=$((failures + 1))
  fi
}
from_stdin run m.pt2 '^output 0: float32' -- run -
from_stdin inspect "$model" '^symbols' -- inspect -
from_stdin interpret "$model" '^output 0: float32' -- interpret -
from_stdin compile "$model" '^c.pt2$' -- compile - -o c.pt2
from_stdin bench m.pt2 '^p50' -- bench - --count 5 --quiet
from_stdin check "$model" '^1 passed' -- check - --backend interpret
from_stdin inputs "$cases/mlp/inputs_0.pt" '^output 0: float32' -- run m.pt2 --inputs -
for file in y.npz y.npy y.safetensors y.pt; do
  "$kiln" run m.pt2 -o $file >/dev/null
  from_stdin "compare-$file" $file '1 output, equal' -- compare m.pt2 -
done
"$kiln" bench m.pt2 --count 50 --json - >base.json
from_stdin against base.json '^against ' -- bench m.pt2 --count 50 --against - --tolerance 1e9
"$kiln" compile "$model" -o - 2>err | "$kiln" run - -o - 2>err | "$kiln" compare - y.pt >out
require pipeline grep -q '^1 output, equal$' out
expect stdout-o 0 err '^output 0' -- run m.pt2 -o -
require stdout-is-a-file-of-torch cmp -s out y.pt
expect trace-stdout 0 out 'traceEvents' -- profile m.pt2 --runs 2 --trace -
expect twice 2 err 'can be one file only' -- compare - -
expect no-name 2 err 'give --output' -- compile - <"$model"
expect empty 1 err 'K0737.*standard input is empty' -- run - </dev/null
expect not-a-file 0 out '^settings|^entries' -- cache stat --config cache_dir="$work/cache"
require nothing-is-left not compgen -G "${TMPDIR:-/tmp}/kiln-stdin*"

finish
