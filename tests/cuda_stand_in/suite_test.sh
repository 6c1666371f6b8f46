#!/usr/bin/env bash
# suite_test.sh KILN SOURCE_DIR: tools/gpu_suite.sh from the cases to the sum, with the stand-ins for NVRTC and the driver, and
# one for compute-sanitizer that finds something in one package.
set -uo pipefail
kiln=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=${KILN_BINARY_DIR:-$(dirname "$kiln")/..}
for variable in $(compgen -e KILN_ | grep -v KILN_CACHE_DIR); do unset "$variable"; done
export KILN=$kiln KILN_BINARY_DIR=$build
mkdir "$work/bin"
cat > "$work/bin/compute-sanitizer" <<'END'
#!/usr/bin/env bash
# Options end where the command begins.
while [[ $1 == -* ]]; do case $1 in --error-exitcode | --tool | --print-limit) shift 2 ;; *) shift ;; esac; done
echo "$*" >> "$(dirname "$0")/calls"
"$@" || exit
[[ "$*" != *softmax* ]] || { echo "a race in softmax"; exit 9; }
END
chmod +x "$work/bin/compute-sanitizer"
export PATH=$work/bin:$PATH
suite() { "$source/tools/with_cuda_stand_in.sh" "$source/tools/gpu_suite.sh" "$@" 2>&1 | grep -v 'environment variable KILN_'; }
failed=0
expect() { grep -q "$1" <<< "$2" || { echo "no '$1' in: $2"; failed=1; }; }
cases=("$source/tests/cases/mlp" "$source/tests/cases/softmax" "$source/tests/cases/index")
expect '3 compiled, 0 refused' "$(suite prepare "$work/suite" "${cases[@]}")"
out=$(suite run "$work/suite" --sanitize 1 --tool memcheck --tool racecheck)
expect '3 passed, 0 failed, 0 skipped' "$out"
expect 'compute-sanitizer memcheck: 2 clean, 1 not, 0 not reached' "$out"
expect 'compute-sanitizer racecheck: 2 clean, 1 not, 0 not reached' "$out"
expect 'a race in softmax' "$(cat "$work/suite/results/shard_1.racecheck.found")"
# One process for all of them, and one for each where that is not clean.
[ "$(wc -l < "$work/bin/calls")" -eq 8 ] || { echo "calls: $(cat "$work/bin/calls")"; failed=1; }
expect 'has results' "$(suite run "$work/suite")"
out=$(suite merge "$work/suite")
expect '3 passed, 0 failed, 0 skipped' "$out"
expect 'memcheck: 2 clean' "$out"
exit $failed
