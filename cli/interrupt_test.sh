#!/usr/bin/env bash
# Ctrl-C and SIGTERM in all commands that may take long: the exit code says so, and nothing is left.
#   interrupt_test.sh KILN SOURCE_DIR
set -uo pipefail
kiln=$1
source_dir=$2
source "$(dirname "$0")/test_helpers.sh"
cd "$work" || exit 1
model=$source_dir/tests/cases/mlp/model.pt2
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
expect compile 0 out kernel -- compile "$model" -o good.pt2
expect compile-hang 0 out kernel -- compile "$model" -o hang.pt2 --config inject_fault_TESTING_ONLY=hang:relu

cat >slow_compiler <<'SH'
#!/bin/sh
case $1 in --version) echo slow; exit 0 ;; esac
touch started
exec sleep 60
SH
chmod +x slow_compiler

# Processes of the command that take or took the processor, itself included: those whose environment has the mark.
marked() { grep -lsz "^KILN_INTERRUPT_TEST=$mark\$" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3; }
nothing_is_left() {
  for _ in $(seq 50); do
    [[ -z $(marked) ]] && ! compgen -G "$TMPDIR/*" >left && return 0
    sleep 0.1
  done
  marked | while read -r pid; do tr '\0' ' ' <"/proc/$pid/cmdline"; done
  cat left
  return 1
}
at_work() { [[ $(marked | while read -r pid; do cut -d' ' -f14 "/proc/$pid/stat" 2>/dev/null; done | sort -n | tail -1) -ge 40 ]]; }

# interrupted NAME WHEN ARGS…: WHEN is what is so while it is at what takes long.
interrupted() {
  local name=$1 when=$2 signal code
  shift 2
  for signal in INT TERM; do
    [[ $signal == INT ]] && code=130 || code=143
    mark=$name-$signal-$$
    rm -f started
    # A script's background jobs ignore SIGINT; those of a user do not.
    KILN_INTERRUPT_TEST=$mark env --default-signal "$kiln" "$@" >out 2>err &
    local pid=$!
    for _ in $(seq 150); do $when && break || sleep 0.1; done
    kill "-$signal" $pid
    wait $pid 2>/dev/null
    local got=$?
    require "$name-$signal-ends-with-$code-not-$got" test $got == $code
    require "$name-$signal-is-no-bug" not grep -q K0900 err
    require "$name-$signal-leaves-nothing" nothing_is_left
  done
}
compiling() { [[ -e started ]]; }
checked() { compgen -G "$TMPDIR/kiln_*/checked.so" >/dev/null && at_work; }

export KILN_CXX=$work/slow_compiler
interrupted compile compiling compile "$model" -o x.pt2 --config cache_dir="$work/cache2"
interrupted check-compiles compiling check "$model" --jobs 1 --config cache_dir="$work/cache2"
interrupted minify-compiles compiling minify "$model" --config cache_dir="$work/cache2"
KILN_CACHE_DIR=$work/cache2 interrupted builds-checked compiling run good.pt2 --config check_bounds=1
unset KILN_CXX
interrupted checked-run checked run hang.pt2 --config check_bounds=1
interrupted run at_work run hang.pt2
interrupted bench at_work bench hang.pt2
interrupted profile at_work profile hang.pt2
interrupted bisect at_work bisect hang.pt2
interrupted compare at_work compare hang.pt2 good.pt2
interrupted minify at_work minify "$model" --config inject_fault_TESTING_ONLY=hang:relu
require minify-says-so grep -q '^interrupted before the failure was pinned down: there is no repro' err
interrupted minify-once at_work minify "$model" --command run --config inject_fault_TESTING_ONLY=hang:relu

finish
