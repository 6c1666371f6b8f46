#!/usr/bin/env bash
# `kiln bench` on whole packages: inputs, callers, figures, JSON, comparison with an earlier one.
#   bench_test.sh KILN SOURCE_DIR
set -uo pipefail
kiln=$1
source_dir=$2
source "$(dirname "$0")/test_helpers.sh"
cd "$work" || exit 1
cases=$source_dir/tests/cases
compile() { "$kiln" compile "$cases/$1/model.pt2" -o "$1.pt2" >/dev/null 2>&1 || echo "FAIL cannot compile $1"; }
for name in mlp mutated_input counter embedding nonzero; do compile $name; done
short="--warmup 0 --seconds 0.05"

# ---- what it prints
expect figures 0 out '^latency +mean .* min .* p50 .* p90 .* p95 .* p99 .* max ' -- bench mlp.pt2 $short
for line in '^mlp.pt2: model for .*; s77 = 8; inputs: samples; 1 caller, [0-9]+ threads? a call$' '^load +[0-9.]+ .*first call [0-9.]+ ' \
  '^memory +.* resident, .* of it since before loading, ' '^throughput +[0-9,]+ calls/s: ' '^ +from .* █+ [0-9,]+$'; do
  require "prints: $line" grep -Eq "$line" out
done
expect count 0 out ': 70 calls in ' -- bench mlp.pt2 --warmup 0 --count 70
require p99-of-few grep -q 'p99 of fewer than 100 calls' out
expect quiet 0 out '^p50 .*calls/s \(70 calls\)$' -- bench mlp.pt2 --warmup 0 --count 70 --quiet
require quiet-is-a-line test "$(wc -l <out)" = 1
expect kernels 0 out '^cpp_mm_linear' -- bench mlp.pt2 $short --kernels

# ---- inputs
expect file 0 out "inputs: $cases/mlp/inputs_1.pt" -- bench mlp.pt2 $short --inputs "$cases/mlp/inputs_1.pt"
expect bad-file 1 err 'K0616' -- bench mlp.pt2 $short --inputs "$cases/mlp/bad_inputs_0.pt"
expect shape 0 out '; s77 = 128; inputs: random, seed 3;' -- bench mlp.pt2 $short --shape s77=128 --seed 3
expect random 0 out '; s77 = 8; inputs: random, seed 0;' -- bench mlp.pt2 $short --random
expect indices-stay-indices 0 out 's27 = 64' -- bench embedding.pt2 $short --shape s27=64
compile bags_of_offsets
expect order-is-not-kept 1 err '^note: the inputs are random.*give --inputs$' -- bench bags_of_offsets.pt2 $short --random
expect unknown-symbol 1 err "K0730.*s7 is no size.*nearest is 's77'.*s77 \(x.size\(0\), 1 … 1024\)" -- bench mlp.pt2 --shape s7=8
expect computed-symbol 1 err 'K0730.*u0 is computed while the program runs.*every size of this package is fixed' -- bench nonzero.pt2 --shape u0=8
expect out-of-range 1 err 'K0731.*s77=2000 is outside of its range, 1 … 1024' -- bench mlp.pt2 --shape s77=2000
for shape in s77 s77= =8 s77=x s77=8,s77=9 ''; do
  expect "shape-$shape" 2 err 'K0190.*--shape' -- bench mlp.pt2 --shape "$shape"
done
expect shape-twice 2 err '--shape gives s77 twice' -- bench mlp.pt2 --shape s77=8 --shape s77=9
expect both-inputs 2 err 'exclude each other' -- bench mlp.pt2 --random --inputs "$cases/mlp/inputs_1.pt"
expect seed-alone 2 err '--seed belongs to' -- bench mlp.pt2 --seed 1
expect both-ends 2 err 'exclude each other' -- bench mlp.pt2 --count 1 --seconds 1
expect a-model 1 err 'K0520.*exported program' -- bench "$cases/mlp/model.pt2"

# ---- several callers; state and inputs that are written
expect callers 0 out '3 callers at once, 1 thread a call' -- bench mlp.pt2 $short --callers 3 --threads 1
expect callers-count 0 out ': 100 calls in ' -- bench mlp.pt2 --warmup 0 --count 100 --callers 3
expect stateful 0 out '2 callers at once' -- bench counter.pt2 $short --callers 2
expect fresh-outputs 0 out '; outputs allocated by each call$' -- bench mlp.pt2 $short --callers 2 --fresh-outputs
expect put-back 0 out 'with putting back the inputs that calls write' -- bench mutated_input.pt2 $short --callers 2
expect sizes-from-data 0 out '^latency' -- bench nonzero.pt2 $short --callers 2


# ---- threads: what is in effect, whoever said so
threads_are() { grep -q "\"threads\": $1,$" out; }
"$kiln" compile "$cases/mlp/model.pt2" -o three.pt2 --config cpp.threads=3 >/dev/null 2>&1
expect threads-of-a-setting 0 out ', 1 thread a call$' -- bench mlp.pt2 $short --config cpp.threads=1
expect threads-of-the-package 0 out ', 3 threads a call$' -- bench three.pt2 $short
expect threads-of-an-option 0 out ', 5 threads a call$' -- bench three.pt2 $short --threads 5
expect more-than-processors 0 out ', 99 threads a call$' -- bench mlp.pt2 $short --threads 99
expect threads-json 0 out '"kind"' -- bench three.pt2 $short --json -
require threads-json-has-it threads_are 3
expect too-many 2 err '--threads takes a whole number from 1 to 1024' -- bench mlp.pt2 --threads 4096
expect contradiction 2 err 'contradict each other' -- bench mlp.pt2 --threads 2 --config cpp.threads=3
"$kiln" bench mlp.pt2 --count 200 --config cpp.threads=7 --json seven.json >/dev/null
expect threads-against 0 err 'note: not the same in both: threads: 7 in seven.json, 1 here' -- bench mlp.pt2 --count 200 --threads 1 --against seven.json --tolerance 1e9

# ---- profile takes the same options
expect profile-threads 0 out '; 1 thread$' -- profile mlp.pt2 --runs 2 --threads 1
expect profile-threads-of-the-package 0 out '; 3 threads$' -- profile three.pt2 --runs 2
expect profile-shape 0 out '^2 runs, median ' -- profile mlp.pt2 --runs 2 --shape s77=128 --seed 3
expect profile-out-of-range 1 err 'K0731.*s77=2000' -- profile mlp.pt2 --shape s77=2000
expect profile-both-inputs 2 err 'exclude each other' -- profile mlp.pt2 --random --inputs "$cases/mlp/inputs_1.pt"
expect profile-contradiction 2 err 'contradict each other' -- profile mlp.pt2 --threads 2 --config cpp.threads=3
expect profile-random-fails 1 err '^note: the inputs are random.*give --inputs$' -- profile bags_of_offsets.pt2 --random
expect profile-state 0 out '^3 runs, median ' -- profile counter.pt2 --runs 3
expect profile-put-back 0 out '^3 runs, median ' -- profile mutated_input.pt2 --runs 3

# ---- what products of bf16 are measured against
if "$kiln" --version | grep -q '^CPU:.* avx512bf16'; then
  compile products_bf16
  expect bf16-peak 0 out '"bf16_pair_flops_per_second": [0-9]' -- profile products_bf16.pt2 --runs 2 --json -
  require bf16-products grep -Eq '"arithmetic": "bf16 (pairs|tiles)"' out
  expect bf16-peak-in-text 0 out ' \(f32\), .* \(bf16 pairs\), .* from memory' -- profile products_bf16.pt2 --runs 2
fi
expect f32-products 0 out '"arithmetic": "f32"' -- profile mlp.pt2 --runs 2 --json -
require f32-products-alone not grep -q '"arithmetic": "bf16' out

# ---- progress: on a terminal alone, and not with --quiet
if command -v script >/dev/null; then
  on_terminal() { script -qec "$kiln $*" /dev/null </dev/null; }
  require progress-of-bench grep -q 'measuring for 0.6 s' <(on_terminal bench mlp.pt2 --warmup 0 --seconds 0.6)
  require progress-of-profile grep -q 'running 200000 times' <(on_terminal profile mlp.pt2 --runs 100000)
  require no-progress-when-quiet not grep -q measuring <(on_terminal bench mlp.pt2 $short --quiet)
fi
expect no-progress-in-a-file 0 out latency -- bench mlp.pt2 $short
require no-progress-in-a-file-at-all is_empty err

# ---- JSON, and against an earlier one
expect json-file 0 out '^latency' -- bench mlp.pt2 --count 200 --json base.json
expect json-stdout 0 out '^  "kind": "kiln bench",$' -- bench mlp.pt2 --count 200 --json - --kernels
require json-alone test "$(head -c 1 out)" = '{'
for key in load_seconds first_call_seconds calls_per_second p50 p90 p95 p99 resident_bytes p50_seconds_of_tenths functions sizes; do
  require "json-has-$key" grep -q "\"$key\":" out
done
slow() { sed -E "s/\"(mean|min|p50|p90|p95|p99|max)\": .*[0-9]/\"\1\": $1/; s/(\"p50_seconds_of_tenths\": ).*/\1[$1],/" base.json; }
slow 1000.0 >quick_now.json
slow 1e-12 >slow_now.json
expect not-slower 0 out '^not slower: the median call is 100.0 % quicker, tolerance 10.0 %$' -- bench mlp.pt2 --count 200 --against quick_now.json
expect slower 1 out '^slower: the median call is .* % slower, tolerance 5.0 %$' -- bench mlp.pt2 --count 200 --against slow_now.json --tolerance 5
expect slower-quiet 1 out '^slower: ' -- bench mlp.pt2 --count 200 --against slow_now.json --quiet
require quiet-comparison-is-two-lines test "$(grep -vc '^not certain' out)" = 2
expect slower-json 1 out '"slower": true' -- bench mlp.pt2 --count 200 --against slow_now.json --json -
expect another-measurement 0 err 'note: not the same in both: sizes: {"s77":8} in quick_now.json, {"s77":16} here' -- bench mlp.pt2 --count 200 --shape s77=16 --against quick_now.json
echo '{"kind": "something"}' >other.json
expect no-base 1 err "K0734.*other.json is not what 'kiln bench --json' writes" -- bench mlp.pt2 --against other.json
require no-base-first is_empty out
echo '{' >broken.json
expect broken-base 1 err 'K0734' -- bench mlp.pt2 --against broken.json
expect tolerance-alone 2 err '--tolerance belongs to --against' -- bench mlp.pt2 --tolerance 5
expect base-stays 1 err 'K0193' -- bench mlp.pt2 --against base.json --json base.json

finish
