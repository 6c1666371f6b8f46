#!/usr/bin/env bash
# The command line as users meet it: exit codes, where messages go, and whole runs over tests/cases.
#   commands_test.sh KILN SOURCE_DIR
set -uo pipefail
kiln=$1
source_dir=$2
source "$(dirname "$0")/test_helpers.sh"

# ---- help and wrong command lines
expect help 0 out '^usage: kiln COMMAND' -- --help
expect version 0 out '^kiln [0-9]+\.[0-9]+' -- --version
expect version-compiler 0 out '^C\+\+ compiler: ' -- --version
for command in compile run check interpret inspect passes; do
  expect "help-$command" 0 out "^usage: kiln $command" -- "$command" --help
  expect "help-$command-config" 0 out '^  --config K=V' -- "$command" --help
done
for command in compile run check interpret inspect bisect replay profile report cache minify; do
  expect "help-$command-example" 0 out "^  kiln $command " -- "$command" --help
done
expect nothing 2 err '^usage: kiln COMMAND' --
expect unknown-command 2 err "nearest is 'compile'" -- compiel
expect unknown-option 2 err "nearest is '--device'" -- compile model.pt2 --devcie cpu
expect missing-argument 2 err "^error\[K0190\]: 'kiln compile' needs MODEL.pt2" -- compile
expect own-usage 2 err '^  usage: kiln run PKG' -- run
expect help-command 0 out '^usage: kiln run PKG' -- help run
expect help-unknown 2 err "error\[K0190\].*nearest is 'run'" -- help rnu
expect far-command 2 err "there is no command 'xyzzyx'$" -- xyzzyx
version_lines_are_current() { "$kiln" --version | head -2 | while read -r line; do grep -qxF "$line" "$source_dir/docs/commands.md" || return 1; done; }
require version-in-the-document version_lines_are_current
expect config-without-value 2 err "error\[K0190\]: --config takes KEY=VALUE, not 'nan_asserts'" -- run x --config nan_asserts
expect sort-column 2 err 'error\[K0190\]: there is no column "foo" to sort by' -- profile x --sort-by foo
expect bad-number 2 err '--jobs takes a whole number' -- check x --jobs many
expect bad-backend 2 err '--backend takes compiled, loops or interpret' -- check "$source_dir" --backend fast

# ---- the cache, the report
expect cache-stat 0 out '^entries ' -- cache stat --config cache_dir="$work/cache"
expect cache-unknown 2 err 'stat, ls and clear' -- cache drop
expect report-nothing 1 err 'error\[K0144\]' -- report "$work"

# ---- settings
expect unknown-log 1 err 'Invalid log settings: inductr' -- compile x --config TORCH_LOGS=inductr
expect unknown-key 1 err 'error\[K0140\]' -- inspect x --config cpp.thread=1
expect late-key 1 err 'error\[K0141\]' -- run x --config cpp.simdlen=1

expect no-suggestion-from-afar 1 err "no setting 'qwertyuiop' \('kiln settings' lists" -- inspect x --config qwertyuiop=1
expect settings 0 out '^cpp.threads = -1$' -- settings threads
expect settings-none 1 err 'error\[K0192\]' -- settings no_such_name
expect settings-document 0 out '^\| key, environment' -- settings --markdown
require settings-document-is-current diff <(sed -n '/^| key, environment/,$p' "$source_dir/docs/settings.md") "$work/out"
for assignment in cpp.threads=0 cpp.threads=-5 cpp.simdlen=7 check_inputs=2 aot_inductor.repro_level=9; do
  expect "bad-$assignment" 1 err 'error\[K0142\]' -- compile x --config "$assignment"
done

# ---- what is given and does nothing is said
for assignment in aot_inductor.filtered_kernel_names=x intermediate_value_dir=x intermediate_value_style=table nan_asserts_infinities=0 fault_values=0 TORCH_LOGS_OUT=x aot_inductor.repro_level=1; do
  expect "idle-${assignment%%=*}" 1 err "note: setting ${assignment%%=*} does nothing without" -- inspect x --config "$assignment"
done
KILN_THREADS=1 expect variable-of-a-setting 1 err 'KILN_THREADS is no setting of Kiln and does nothing; the setting cpp.threads has no variable: give --config cpp.threads=' -- inspect x
KILN_FREEZING=1 expect other-variable-of-a-setting 1 err 'KILN_FREEZING is no .*; the setting freezing is read from TORCHINDUCTOR_FREEZING' -- inspect x
KILN_NO_SUCH_THING=1 expect unknown-variable 1 err 'note: environment variable KILN_NO_SUCH_THING is no setting of Kiln' -- inspect x
expect metadata-no-object 1 err 'error\[K0142\]: aot_inductor.metadata is a JSON object' -- compile "$source_dir/tests/cases/mlp/model.pt2" -o "$work/x.pt2" --config 'aot_inductor.metadata=[1]'
expect metadata-no-json 1 err 'error\[K0142\]: aot_inductor.metadata is a JSON object' -- compile "$source_dir/tests/cases/mlp/model.pt2" -o "$work/x.pt2" --config 'aot_inductor.metadata=author'

# ---- files that are not there or not what they should be
expect missing-model 1 err 'error\[K01[0-9][0-9]\]: .*nothing-here.pt2' -- compile "$work/nothing-here.pt2"
echo "not a zip" >"$work/bad.pt2"
expect bad-model 1 err 'error\[K01[0-9][0-9]\]' -- compile "$work/bad.pt2"
expect bad-inspect 1 err 'error\[K01[0-9][0-9]\]' -- inspect "$work/bad.pt2"
expect bad-package 1 err 'error\[K0[15][0-9][0-9]\]' -- run "$work/bad.pt2"
expect bad-is-recognised 1 err 'K0162.*neither an exported program nor a package' -- compile "$work/bad.pt2"
expect directory-compile 1 err 'K0162.*is a directory.*kiln check' -- compile "$work"
expect directory-run 1 err 'K0520.*is a directory.*kiln check' -- run "$work"
expect missing-case 1 err 'error\[K0170\]' -- check "$work/no-such-folder"

# ---- the list of passes
expect passes 0 out '^  functionalize' -- passes

# ---- a whole run, where the cases of the repository are there
cases=$source_dir/tests/cases
model=$cases/mlp/model.pt2
if [[ -f $model ]]; then
  expect inspect-model 0 out '^symbols' -- inspect "$model"
  expect inspect-after 0 out '^graph main' -- inspect "$model" --after decompose
  expect inspect-after-unknown 2 err "nearest is 'functionalize'" -- inspect "$model" --after functionalise
  expect interpret 0 out '^output 0: float32\[' -- interpret "$model"
  expect interpret-fp64 0 out '^output 0: float64\[' -- interpret "$model" --fp64
  expect dump 0 out '^# after functionalize' -- compile "$model" --dump-after all
  expect dump-unknown-pass 2 err "nearest is 'functionalize'" -- compile "$model" --dump-after functionalise
  expect compile 0 out 'kernel' -- compile "$model" -o "$work/mlp.kiln.pt2"
  require package-path-is-last last_line_is "$work/out" "$work/mlp.kiln.pt2"
  require no-progress-without-a-terminal is_empty "$work/err"
  expect compile-without-weights 0 out 'kernel' -- compile "$model" -o "$work/bare.kiln.pt2" --config aot_inductor.package_constants_in_so=0
  expect run-without-weights 1 err 'K0720.*fc1.weight, fc1.bias, fc2.weight, fc2.bias' -- run "$work/bare.kiln.pt2"
  expect inspect-without-weights 0 out 'fc1.weight' -- inspect "$work/bare.kiln.pt2"
  expect bisect-without-weights 1 err 'error\[K' -- bisect "$work/bare.kiln.pt2"
  require package-exists test -s "$work/mlp.kiln.pt2"
  expect generic 0 out 'kernel' -- compile "$model" -o "$work/generic.pt2" --target generic
  expect a-target-named-twice 0 out 'kernel' -- compile "$model" -o "$work/twice.pt2" --target generic,generic
  expect a-gpu-without-its-device 1 err 'K0403.*--device cuda' -- compile "$model" -o "$work/d.pt2" --target sm_90
  expect generic-runs 0 out '^output 0: float32' -- run "$work/generic.pt2"
  expect fault-meets-nothing 0 err 'note: the fault to inject met no operator: the program has no cos' -- compile "$model" -o "$work/f.pt2" --config inject_fault_TESTING_ONLY=crash:cos
  expect fault-meets-nothing-loops 0 err 'note: the fault to inject met no operator' -- compile "$model" -o "$work/f.pt2" --config inject_fault_TESTING_ONLY=accuracy:cos
  for fault in accuracy:cos accuracy:linear+cos nan:relu:above=1000000 runtime_error:relu:subgraph crash:relu:subgraph crash:relu+cos hang:relu:node=no_such compile_error:cos:dynamic internal_error:cos; do
    expect "misses-$fault" 0 err 'note: the fault to inject met no operator' -- compile "$model" -o "$work/f.pt2" --config inject_fault_TESTING_ONLY=$fault
    expect "misses-generate-$fault" 0 err 'note: the fault to inject met no operator' -- compile "$model" --generate "$work/g" --config inject_fault_TESTING_ONLY=$fault
    expect "misses-dump-$fault" 0 err 'note: the fault to inject met no operator' -- compile "$model" --dump-after all --config inject_fault_TESTING_ONLY=$fault
  done
  no_relu=$cases/add/model.pt2
  for key in cpp triton; do
    expect "misses-relu-of-$key" 0 err 'note: the fault to inject met no operator: the program has no relu' -- compile "$no_relu" -o "$work/f.pt2" --config $key.inject_relu_bug_TESTING_ONLY=accuracy
  done
  expect misses-check 0 err 'note: .*the fault to inject met no operator' -- check "$no_relu" --config inject_fault_TESTING_ONLY=accuracy:cos
  expect misses-loops 0 err 'note: .*the fault to inject met no operator' -- check "$no_relu" --backend loops --config inject_fault_TESTING_ONLY=accuracy:cos
  expect misses-scheduled 0 err 'note: .*the fault to inject met no operator' -- check "$no_relu" --backend loops --scheduled --config inject_fault_TESTING_ONLY=accuracy:cos
  expect no-code-in-loops 0 err 'note: .*is a line of C\+\+ in a kernel.s code, and no code is made here' -- check "$model" --backend loops --config inject_fault_TESTING_ONLY=crash:relu
  expect no-fusion-in-loops 0 err 'note: .*is one of fused kernels, and nothing is fused here' -- check "$model" --backend loops --config inject_fault_TESTING_ONLY=accuracy:relu+linear
  expect no-fault-in-the-reference 0 err 'note: setting inject_fault_TESTING_ONLY does nothing here: the reference interpreter compiles nothing' -- check "$model" --backend interpret --config inject_fault_TESTING_ONLY=accuracy:relu
  expect no-fault-in-interpret 0 err 'note: setting inject_fault_TESTING_ONLY does nothing here: the reference interpreter compiles nothing' -- interpret "$model" --config inject_fault_TESTING_ONLY=accuracy:relu
  expect no-nan-asserts-in-loops 0 err 'note: setting nan_asserts does nothing here: the interpreter of loops runs no kernels' -- check "$model" --backend loops --config nan_asserts=1
  expect misses-run-once 0 err 'note: the fault to inject met no operator' -- minify "$model" --command run --config inject_fault_TESTING_ONLY=accuracy:cos
  expect misses-minify 1 err 'AOTIMinifierError.*the fault to inject met no operator' -- minify "$model" --save-dir "$work/m" --config inject_fault_TESTING_ONLY=accuracy:cos
  expect stops-before-the-fault 0 out '^# after lower' -- compile "$model" --stop-after lower --config inject_fault_TESTING_ONLY=accuracy:cos
  require no-note-before-its-turn not grep -q 'the fault to inject' "$work/err"
  expect fault-meets-something 0 out kernel -- compile "$model" -o "$work/f.pt2" --config inject_fault_TESTING_ONLY=accuracy:relu
  require no-note-of-a-fault not grep -q 'met no operator' "$work/err"
  # Packed at compile time: for the first target alone; nothing is said of packing where there was nothing to pack.
  expect frozen 0 out 'weights packed' -- compile "$cases/picture/model.pt2" -o "$work/frozen.pt2" --config freezing=1
  expect frozen-is-shown 0 out '^steps whose results are in the package, for .* \(freezing\)' -- inspect "$work/frozen.pt2"
  require frozen-packs-nothing not grep -q '^steps when weights are loaded' "$work/out"
  expect nothing-to-freeze 0 out kernel -- compile "$no_relu" -o "$work/f.pt2" --config freezing=1
  require nothing-was-packed not grep -q 'weights packed' "$work/out"
  expect frozen-for-the-first 0 err 'note: freezing: the packed weights are those of generic; .*: name first what most machines run, or compile a package for each target' -- compile "$cases/picture/model.pt2" -o "$work/two.pt2" --config freezing=1 --target generic,x86-64-v2
  if [[ $(uname -m) == x86_64 ]]; then
    expect shown-target 0 out 'code for generic, x86-64-v2; shown is x86-64-v2, which this machine runs$' -- inspect "$work/two.pt2"
    require another-target-packs grep -q '^steps when weights are loaded' "$work/out"
  fi
  expect strip 0 out kernel -- compile "$model" -o "$work/s.pt2" --strip-debug
  expect debug-is-recognised 1 err 'K0162.*is the debug section of a package of Kiln.*give the package itself' -- inspect "$work/s.pt2.debug"
  expect debug-to-run 1 err 'K0520.*is the debug section of a package of Kiln' -- run "$work/s.pt2.debug"
  expect interpret-notes 0 err 'note: setting nan_asserts does nothing here: the reference interpreter runs no kernels' -- interpret "$model" --config nan_asserts=1
  expect interpret-compiles-nothing 0 err 'note: setting freezing does nothing here: the reference interpreter compiles nothing' -- interpret "$model" --config freezing=1
  expect inspect-compiles-nothing 0 err 'note: setting freezing does nothing here: inspect compiles nothing' -- inspect "$work/mlp.kiln.pt2" --config freezing=1
  expect passes-run-nothing 0 err 'note: setting nan_asserts does nothing here: passes runs no kernels' -- passes --config nan_asserts=1
  expect cache-runs-nothing 0 err 'note: setting nan_asserts does nothing here: cache runs no kernels' -- cache stat --config nan_asserts=1
  expect minify-writes-no-trace 0 err 'note: setting TORCH_TRACE does nothing here: the trials' -- minify "$model" --command run --config TORCH_TRACE="$work/none"
  for run in bench\ --count\ 5 profile bisect "compare $work/mlp.kiln.pt2"; do
    # shellcheck disable=SC2086
    expect "debug-${run%% *}" 0 err "debug directory: $work/debug-${run%% *}" -- $run "$work/mlp.kiln.pt2" --config debug=1 --config debug_dir_root="$work/debug-${run%% *}"
  done
  expect raises 0 out kernel -- compile "$model" -o "$work/raises.pt2" --config cpp.inject_relu_bug_TESTING_ONLY=runtime_error
  for run in bench profile "compare $work/raises.pt2"; do
    # shellcheck disable=SC2086
    expect "dump-of-${run%% *}" 1 err minifier_launcher.py -- $run "$work/raises.pt2" --config aot_inductor.dump_aoti_minifier=1 --config debug_dir_root="$work/dumped"
  done
  expect passes-know-settings 1 err 'K0140.*nan_asserts' -- passes --config nan_assert=1
  expect debug-folder-alone 0 err 'setting debug_dir_root does nothing without debug' -- run "$work/mlp.kiln.pt2" --config debug_dir_root="$work/nothing"
  expect compiler-of-a-checked-run 0 err 'machine code is not checked.*no-such-compiler' -- run "$work/mlp.kiln.pt2" --config check_bounds=1 --config compiler=no-such-compiler
  expect compiler-of-a-plain-run 0 err 'setting compiler does nothing without check_bounds' -- run "$work/mlp.kiln.pt2" --config compiler=no-such-compiler
  expect threads-said-twice 2 err '--threads 2 and --config cpp.threads=1 contradict each other' -- bench "$work/mlp.kiln.pt2" --config cpp.threads=1 --threads 2
  expect against-no-json 1 err 'K0734.*is not what .kiln bench --json. writes' -- bench "$work/mlp.kiln.pt2" --against "$cases/mlp/inputs_0.pt"
  expect passes-of-a-package 1 err 'K0799.*--after is of an exported program' -- inspect "$work/mlp.kiln.pt2" --after decompose
  expect misspelt-version 2 err "the nearest is '--version'" -- --verison
  expect no-trace-once 0 err 'no trace: ' -- run "$work/mlp.kiln.pt2" --config TORCH_TRACE=/proc/none
  require no-trace-said-once test "$(grep -c 'no trace: ' "$work/err")" = 1
  expect dump-of-inputs 1 err 'Nothing to minify: K0616 is about the inputs' -- run "$work/mlp.kiln.pt2" --inputs "$cases/mlp/bad_inputs_0.pt" --config aot_inductor.dump_aoti_minifier=1 --config debug_dir_root="$work/refused"
  require no-launcher-for-inputs not compgen -G "$work/refused/run_*/minifier/*.py"
  expect model-to-run 1 err 'K0520.*exported program.*kiln compile .*model.pt2' -- run "$model"
  expect package-to-compile 1 err 'K0162.*package of Kiln.*kiln run .*mlp.kiln.pt2' -- compile "$work/mlp.kiln.pt2"
  expect package-to-interpret 1 err 'K0162.*package of Kiln' -- interpret "$work/mlp.kiln.pt2"
  "$kiln" compile "$cases/joined_heads/model.pt2" -o "$work/joined.pt2" --target x86-64-v3 --quiet > "$work/out"
  expect modules-of-a-joined-product 0 out ' q, k, v  ' -- profile "$work/joined.pt2"
  "$kiln" compile "$cases/joined_heads/model.pt2" -o "$work/apart.pt2" --target x86-64-v3 --config pattern_matcher=0 --quiet > "$work/out"
  expect no-patterns 0 out ' v  ' -- profile "$work/apart.pt2"
  require no-patterns-no-joined-products not grep -q ' q, k, v  ' "$work/out"
  if "$kiln" --version | grep -q avx512bf16; then  # what medium rounds is no fault, and where it rounds nothing that is said
    "$kiln" compile "$cases/mlp/model.pt2" -o "$work/medium.pt2" --config float32_matmul_precision=medium --quiet > "$work/out"
    expect medium-is-no-divergence 0 out 'no divergence.*' -- bisect "$work/medium.pt2"
    expect medium-is-said 0 out 'factors of products are rounded to bf16' -- bisect "$work/medium.pt2"
    expect medium-of-no-product 0 err 'products of f32 stay f32.*has a weight as a factor' -- compile "$cases/softmax/model.pt2" -o "$work/none.pt2" --config float32_matmul_precision=medium
  fi
  expect model-to-profile 1 err 'K0520.*exported program' -- profile "$model"
  expect model-to-bisect 1 err 'K0520.*exported program' -- bisect "$model"
  expect output-extension-first 1 err 'K0150' -- run "$work/mlp.kiln.pt2" -o "$work/y.txt"
  require nothing-ran-before-it is_empty "$work/out"
  expect output-folder-first 1 err 'K0191.*no directory' -- run "$work/mlp.kiln.pt2" -o "$work/none/y.pt"
  expect package-folder-first 1 err 'K0191' -- compile "$model" -o "$work/none/p.pt2"
  expect key-stop-after 0 out '^# after lower' -- compile "$model" --config stop_after=lower
  expect key-dump-after 0 out '^# after functionalize' -- compile "$model" --config dump_after=all
  expect stop-after-elsewhere 1 out 'K0131' -- check "$model" --config stop_after=lower
  expect check-logs 0 err '\[__guards\]' -- check "$model" --config TORCH_LOGS=guards
  expect check-dump 1 err 'minifier_launcher.py' -- check "$model" --config aot_inductor.dump_aoti_minifier=1 --config cpp.inject_relu_bug_TESTING_ONLY=accuracy --config debug_dir_root="$work/check-dump"
  expect device-index 0 err 'device index 1 does nothing' -- run "$work/mlp.kiln.pt2" --device-index 1
  expect no-such-device 2 err "there is no device 'tpu'" -- compile "$model" --device tpu -o "$work/d.pt2"
  expect no-nvrtc 1 err 'K0770.*none.so' -- compile "$model" --device cuda --config nvrtc=none.so -o "$work/d.pt2"
  expect no-such-architecture 2 err 'unknown target sm_1; .*sm_90a' -- compile "$model" --device cuda --target sm_1 -o "$work/d.pt2"
  expect no-such-target 2 err 'unknown target x86_64; .*x86-64-v3.*sm_90a' -- compile "$model" --target x86-64-v3,x86_64 -o "$work/d.pt2"
  expect no-empty-target 2 err "K0190.*--target names nothing before or after a comma: ''" -- compile "$model" --target '' -o "$work/d.pt2"
  expect no-last-comma 2 err "names nothing before or after a comma: 'x86-64-v3,'" -- compile "$model" --target x86-64-v3, -o "$work/d.pt2"
  expect native-is-alone 2 err 'native.*is the same as leaving it out' -- compile "$model" --target native,x86-64-v3 -o "$work/d.pt2"
  expect native 0 out 'd.pt2$' -- compile "$model" --target native -o "$work/d.pt2"
  expect native-is-the-default 0 out '^1 output, equal$' -- compare "$work/d.pt2" "$work/mlp.kiln.pt2"
  expect a-cpu-for-a-gpu 2 err 'unknown target x86-64-v3; .*--device cpu' -- compile "$model" --device cuda --target x86-64-v3 -o "$work/d.pt2"
  expect dump-no-such-device 2 err "there is no device 'meta'" -- compile "$model" --device meta --dump-after all
  expect check-no-such-device 2 err "there is no device 'tpu'" -- check "$model" --device tpu
  expect keyed-compile 0 out kernel -- compile "$source_dir/tests/docs/keyed.pt2" -o "$work/keyed.kiln.pt2"
  expect keyed-inspect 0 out '^  1  past.0 ' -- inspect "$work/keyed.kiln.pt2"
  for file in y.npz y.safetensors y.pt; do
    expect "keyed-$file" 0 out '^output 0 last_hidden_state: float32' -- run "$work/keyed.kiln.pt2" -o "$work/$file"
    require "keyed-names-in-$file" grep -aq last_hidden_state "$work/$file"
  done
  none=$source_dir/tests/docs/with_none.pt2
  expect none-compile 0 out kernel -- compile "$none" -o "$work/none.kiln.pt2"
  for file in n.npz n.safetensors; do
    expect "none-$file" 0 err "note: .*/$file is without attentions: None, which only .pt can hold" -- run "$work/none.kiln.pt2" -o "$work/$file"
    require "the-others-in-$file" grep -aq scale "$work/$file"
  done
  expect none-pt 0 out 'written to' -- interpret "$none" -o "$work/n.pt"
  require nothing-to-note-for-pt is_empty "$work/err"
  expect write-again 0 out again.pt2 -- inspect "$none" --write "$work/again.pt2"
  require extra-files-come-along grep -aq 'cat dog' "$work/again.pt2"
  expect inspect-package 0 out '^steps of a run' -- inspect "$work/mlp.kiln.pt2"
  expect inspect-origins 0 out 'aten\.' -- inspect "$work/mlp.kiln.pt2"
  kiln_path='' expect run-with-empty-path 0 out '^output 0: float32\[' -- run "$work/mlp.kiln.pt2"
  expect run-repeat 0 out '^10 calls: median' -- run "$work/mlp.kiln.pt2" --repeat 10
  expect run-output 0 out 'written to' -- run "$work/mlp.kiln.pt2" -o "$work/out.pt"
  expect run-wrong-inputs 1 err 'Error: input_handles' -- run "$work/mlp.kiln.pt2" --inputs "$work/out.pt"
  expect run-inputs 0 out '^output 0' -- run "$work/mlp.kiln.pt2" --inputs "$cases/mlp/inputs_0.pt"
  # Debug directory, log, trace, report, cache: of a compile and of a package that exists.
  expect debug-directory 0 err 'note: debug directory: .*/run_.*-pid_[0-9]*/model' -- compile "$model" -o "$work/d.pt2" --debug --config debug_dir_root="$work/debug"
  for file in fx_graph_readable.py fx_graph_runnable.py fx_graph_transformed.py ir_pre_fusion.txt ir_post_fusion.txt output_code.cpp output_code.py; do
    require "debug-$file" test -s "$work"/debug/run_*/model/$file
  done
  expect log-fusion 0 err '\[__fusion\] inline relu into linear_1: it is read once' -- compile "$model" -o "$work/d.pt2" --config TORCH_LOGS=+inductor
  expect log-library 0 err "lib_topk_1\] \[__perf_hints\] a kernel of the runtime's library" -- compile "$cases/topk/model.pt2" -o "$work/topk.pt2" --config TORCH_LOGS=perf_hints
  expect log-of-package 0 err '\[__guards\]' -- run "$work/d.pt2" --config TORCH_LOGS=guards
  expect trace-compile 0 err 'note: trace: ' -- compile "$model" -o "$work/d.pt2" --config TORCH_TRACE="$work/trace" --config cache_dir="$work/cache"
  expect trace-run 0 out '^output 0' -- run "$work/d.pt2" --config TORCH_TRACE="$work/trace"
  expect report 0 out '^1 compile, [0-9]* steps, 1 run, 0 errors$' -- report "$work/trace" -o "$work/report.html"
  expect report-redacted 0 out 'redacted.html' -- report "$work/trace" -o "$work/redacted.html" --redact
  require report-has-source grep -q 'self.fc1(x)' "$work/report.html"
  require redacted-has-none not grep -q 'self.fc1(x)' "$work/redacted.html"
  expect cache-ls 0 out '^kernels .*[0-9a-f]{64}\.so$' -- cache ls --config cache_dir="$work/cache"
  expect cache-clear 0 out '^[0-9]+ entries removed' -- cache clear --config cache_dir="$work/cache"
  expect stack 1 err 'kiln::' -- compile "$work/bad.pt2" --config TORCH_SHOW_CPP_STACKTRACES=1
  for backend in interpret loops compiled; do
    expect "check-$backend" 0 out '^1 passed, 0 failed, 0 skipped$' -- check "$cases/mlp" --backend "$backend" --json "$work/check.json"
    require "json-$backend" grep -q '"passed": 1' "$work/check.json"
    expect "check-bare-$backend" 0 out '^1 passed, 0 failed, 0 skipped$' -- check "$model" --backend "$backend"
  done
  # A wrong expected value must be noticed.
  cp -r "$cases/mlp" "$work/wrong"
  cp "$work/wrong/expected_1.pt" "$work/wrong/expected_0.pt" 2>/dev/null || true
  expect check-notices 1 out '^0 passed, 1 failed, 0 skipped$' -- check "$work/wrong" --backend interpret
else
  echo "tests/cases/mlp is not there: the whole runs are left out"
fi

# What rounding decides or magnifies is no failure and no divergence; a fault beside it is.
rounding=$source_dir/tests/input_files/decided_by_rounding.pt2
expect decided-by-rounding 0 out '1 passed, 0 failed' -- check "$rounding"
expect decided-by-rounding-compiled 0 out 'kernel' -- compile "$rounding" -o "$work/rounding.kiln.pt2"
expect decided-by-rounding-bisected 0 out 'no divergence' -- bisect "$work/rounding.kiln.pt2"
for op in cumsum exp; do
  expect "decided-by-rounding-$op" 1 out '0 passed, 1 failed' -- check "$rounding" --config inject_fault_TESTING_ONLY=accuracy:$op
done

finish
