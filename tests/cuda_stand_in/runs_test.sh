#!/usr/bin/env bash
# runs_test.sh KILN SOURCE_DIR TEST: compiles the packages that TEST (runs_test.cpp) runs, and runs it, both with the
# stand-ins. KILN_GPU_PACKAGES: a folder to keep the packages in, for a machine with a GPU.
set -euo pipefail
kiln=$1 source=$2 test=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export KILN_GPU_PACKAGES=$work KILN_STAND_IN_GPUS=2
stand_in=$source/tools/with_cuda_stand_in.sh
for pair in mlp:mlp counter:counter scaled:scaled_by_number embedding:embedding topk:topk edge:no_edge_between_sums; do
  "$stand_in" "$kiln" compile "$source/tests/cases/${pair#*:}/model.pt2" --device cuda --target sm_90a \
    -o "$work/${pair%:*}.cuda.pt2" --quiet
done
"$stand_in" "$kiln" compile "$source/tests/cases/mlp/model.pt2" --device cuda --target sm_90a -o "$work/bare.cuda.pt2" --quiet \
  --config aot_inductor.package_constants_in_so=0
for pair in mlp:mlp edge:no_edge_between_sums; do
  "$kiln" compile "$source/tests/cases/${pair#*:}/model.pt2" -o "$work/${pair%:*}.cpu.pt2" --quiet
done
"$stand_in" "$test"
KILN_STAND_IN_NO_GRAPHS=1 "$stand_in" "$test" --gtest_filter=*EightThreads*  # what cannot be a graph is launched
