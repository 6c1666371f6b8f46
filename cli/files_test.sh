#!/usr/bin/env bash
# What the command writes where: devices, links and pipes, private places, leftovers of ended processes, quoting, paths.
#   files_test.sh KILN SOURCE_DIR RUNTIME_LIBRARY
set -uo pipefail
kiln=$1
source_dir=$2
runtime=$3
source "$(dirname "$0")/test_helpers.sh"
cd "$work" || exit 1
model=$source_dir/tests/cases/mlp/model.pt2
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
mode_is() { [[ $(stat -c %a "$1") == "$2" ]]; }

# ---- devices, links and pipes as outputs
mknod null c 1 3 2>/dev/null && null=$work/null || null=/dev/null
expect compile-null 0 out 'kernel' -- compile "$model" -o "$null"
require null-stays test -c "$null"
require no-file-beside not compgen -G "$null.*"
expect compile 0 out 'kernel' -- compile "$model" -o m.pt2
expect run-null 0 out 'written to' -- run m.pt2 -o "$null"
expect sidecar-of-null 1 err 'error\[K0147\]' -- compile "$model" -o "$null" --strip-debug
mkdir real
ln -s real/target.pt2 link.pt2
expect compile-link 0 out 'kernel' -- compile "$model" -o link.pt2
require link-stays test -L link.pt2
require target-is-written cmp -s m.pt2 real/target.pt2
ln -s /proc/self/fd/1 stdout # as /dev/stdout is, which a failing test must not replace
expect compile-stdout 0 err 'kernel' -- compile "$model" -o stdout
require stdout-is-the-package cmp -s m.pt2 out
require stdout-stays test -L stdout
"$kiln" compile "$model" -o stdout 2>err | cat >piped.pt2
require piped cmp -s m.pt2 piped.pt2
expect run-stdout 0 err '^output 0' -- run m.pt2 -o stdout
cp out out.pt
expect outputs-from-stdout 1 err 'Error: input_handles' -- run m.pt2 --inputs out.pt

# ---- no command writes to what it reads, by whatever name
mkdir inputs traced
cp "$model" inputs/model.pt2
cp m.pt2 inputs/package.pt2
cp "$source_dir/tests/cases/mlp/inputs_0.pt" inputs/inputs_0.pt
cp "$source_dir/tests/cases/mlp/expected_0.pt" inputs/expected_0.pt
ln -s inputs/model.pt2 soft.pt2
ln inputs/package.pt2 hard.json
"$kiln" run m.pt2 --config TORCH_TRACE=traced >/dev/null 2>&1
trace=$(echo traced/*.jsonl)
sums() { cat inputs/* "$trace" | cksum; }
before=$(sums)
for arguments in "compile inputs/model.pt2 -o inputs/model.pt2" "compile inputs/model.pt2 -o soft.pt2" "compile soft.pt2 -o inputs/../inputs/model.pt2" \
  "run inputs/package.pt2 --inputs inputs/inputs_0.pt -o inputs/inputs_0.pt" "interpret inputs/model.pt2 --inputs inputs/inputs_0.pt -o inputs/inputs_0.pt" \
  "profile inputs/package.pt2 --json inputs/package.pt2" "profile inputs/package.pt2 --trace inputs/package.pt2" "profile inputs/package.pt2 --trace hard.json" \
  "check inputs/model.pt2 --json inputs/model.pt2" "check inputs --json inputs/inputs_0.pt" "inspect inputs/model.pt2 --write inputs/model.pt2" \
  "report traced -o $trace"; do
  # shellcheck disable=SC2086
  expect "an-input-stays: $arguments" 1 err 'error\[K0193\]: .*writing there would destroy it' -- $arguments
  require "untouched-by: $arguments" test "$before" = "$(sums)"
done
expect two-outputs-in-one 2 err 'named by two options' -- profile m.pt2 --json one.json --trace one.json
expect an-earlier-output-is-replaced 0 out '1 passed' -- check inputs/model.pt2 --backend interpret --json inputs/result.json
expect an-earlier-output-is-replaced-again 0 out '1 passed' -- check inputs/model.pt2 --backend interpret --json inputs/result.json
rm inputs/result.json
# A package that an earlier command has left in a directory of cases is an output; what the directory holds is not.
cp -r "$source_dir/tests/cases/mlp" bundled
sums_of_case() { cat bundled/model.pt2 bundled/*.pt bundled/case.json | cksum; }
before=$(sums_of_case)
for round in first second third; do
  expect "bundled-$round" 0 out 'kernel' -- compile bundled/model.pt2 --bundle bundled
  require "bundled-$round-runs" "$kiln" check bundled/model.kiln.pt2
done
expect bundled-stripped 0 out 'kernel' -- compile bundled/model.pt2 --bundle bundled --strip-debug
expect bundled-stripped-again 0 out 'kernel' -- compile bundled/model.pt2 --bundle bundled --strip-debug
for name in model.pt2 inputs_0.pt expected_0.pt case.json; do
  expect "bundled-keeps-$name" 1 err 'error\[K0193\]' -- compile "$model" --bundle bundled -o "bundled/$name"
done
require bundled-case-untouched test "$before" = "$(sums_of_case)"

# ---- a folder that is not there is said before any work, in the same words everywhere
for arguments in "compile $model -o none/x.pt2" "run m.pt2 -o none/y.pt" "interpret $model -o none/y.pt" "profile m.pt2 --trace none/x.json" \
  "profile m.pt2 --json none/x.json" "check $model --json none/x.json" "inspect $model --write none/x.pt2" "report traced -o none/r.html"; do
  # shellcheck disable=SC2086
  expect "no-folder: $arguments" 1 err 'error\[K0191\]: there is no directory none' -- $arguments
  require "nothing-done: $arguments" is_empty out
done

# ---- the minifier replaces its own files only
mkdir -p minify/mine minify/input
cp "$model" minify/input/repro.pt2
echo "mine" | tee minify/mine/repro.py >minify/mine/repro.sh
fault="--config inject_fault_TESTING_ONLY=compile_error:relu"
(cd minify/mine && "$kiln" minify "$model" $fault --save-dir "$work/minify/a" >../out 2>&1)
require minify-keeps-my-files grep -qx mine minify/mine/repro.py
require minify-says-its-name grep -q 'Wrote minimal repro out to repro_1.py' minify/out
require minify-repro-runs grep -q "exported_program = 'repro_1.pt2'" minify/mine/repro_1.py
(cd minify/mine && rm repro.py repro.sh && "$kiln" minify "$model" $fault --save-dir "$work/minify/b" >../out 2>&1)
require minify-first-name grep -q 'Wrote minimal repro out to repro.py' minify/out
(cd minify/mine && "$kiln" minify "$model" $fault --save-dir "$work/minify/c" >../out 2>&1)
require minify-replaces-its-own grep -q 'Wrote minimal repro out to repro.py' minify/out
(cd minify/input && "$kiln" minify repro.pt2 $fault --save-dir "$work/minify/d" >../out 2>&1)
require minify-keeps-its-input cmp -s "$model" minify/input/repro.pt2
require minify-input-name grep -q 'Wrote minimal repro out to repro_1.py' minify/out

# ---- the programs of docs/embedding.md, built as it says
mkdir -p embedding/kiln
ln -s "$source_dir/include" embedding/kiln/include
ln -s "$(dirname "$runtime")" embedding/kiln/lib
cp m.pt2 embedding/model.kiln.pt2
block() { awk -v begin="\`\`\`$1" '$0 == begin && !done {inside = 1; next} $0 == "```" {if (inside) done = 1; inside = 0} inside' "$source_dir/docs/embedding.md"; }
block cpp >embedding/program.cpp
block c >embedding/program.c
grep lkiln_runtime "$source_dir/docs/embedding.md" >embedding/build.sh
require embedding-has-two-commands test "$(grep -c lkiln_runtime embedding/build.sh)" = 2
while read -r build; do
  require "builds: $build" env -C embedding KILN="$work/embedding/kiln" bash -c "$build"
  require "runs: $build" env -C embedding ./program
done <embedding/build.sh >embedding/out
require embedding-prints test "$(grep -c "^-\?[0-9]\+\.[0-9]" embedding/out)" -ge 2

# ---- what bisect could compare with nothing has its name
custom=$(dirname "$runtime")/libkiln_example_custom_ops.so
if [[ -f $custom ]]; then
  expect compile-custom 0 out kernel -- compile "$source_dir/tests/cases/custom_op/model.pt2" -o custom.pt2 --custom-op-lib "$custom"
  expect bisect-custom 0 out '^not compared with anything, for want of a reference: mylib\.' -- bisect custom.pt2
fi
expect bisect-plain 0 out '^no divergence' -- bisect m.pt2
require bisect-names-nothing-else not grep -q 'not compared' out

# ---- the standard output
for command in "--help" "--version" "passes" "run --help" "inspect m.pt2" "run m.pt2" "interpret $model" "check $model --backend interpret" "cache stat"; do
  ran=$((ran + 1))
  "$kiln" $command >/dev/full 2>err
  code=$?
  if [[ $code != 1 ]] || ! grep -q 'error\[K0146\]: cannot write to the standard output' err; then
    echo "FAIL full standard output: exit code $code: kiln $command"
    failures=$((failures + 1))
  fi
done
"$kiln" compile "$model" -o closed.pt2 >&- 2>err
require closed-stdout-is-an-error test $? = 1
require closed-stdout-package-is-whole cmp -s m.pt2 closed.pt2
"$kiln" run m.pt2 <&- >out 2>&-
require closed-others-are-fine test $? = 0

# ---- pipes as inputs do not hold anybody up
mkfifo pipe.pt2 pipe.pt pipe.so
for arguments in "compile pipe.pt2 -o x.pt2" "run pipe.pt2" "inspect pipe.pt2" "interpret pipe.pt2" "run m.pt2 --inputs pipe.pt" "check pipe.pt2" "minify pipe.pt2" "bisect pipe.pt2" "profile pipe.pt2" "replay pipe.pt2" \
  "compile $model -o x.pt2 --custom-op-lib ./pipe.so" "run m.pt2 --custom-op-lib ./pipe.so" "interpret $model --custom-op-lib ./pipe.so"; do
  ran=$((ran + 1))
  timeout 20 "$kiln" $arguments >out 2>&1
  code=$?
  if [[ $code != 1 ]] || ! grep -q 'not a regular file' out; then
    echo "FAIL a pipe as input: exit code $code: kiln $arguments"
    head -3 out
    failures=$((failures + 1))
  fi
done
mkdir traces
mkfifo traces/x.jsonl
expect report-pipe 0 out '^0 compiles' -- report traces -o r.html

# ---- the machine code of every kind of kernel can be checked: tiles, rows behind masks, lanes, chunks, parts of complex numbers
for name in mlp softmax picture picture_groups picture_channels_last quantised_int8_weights spectral odd_complex; do
  "$kiln" compile "$source_dir/tests/cases/$name/model.pt2" -o checked.pt2 >out 2>&1
  "$kiln" run checked.pt2 --config check_bounds=1 >out 2>&1
  require "check-bounds-$name" test $? = 0
  require "check-bounds-of-the-code-$name" test "$(grep -c 'machine code is not checked' out)" = 0
done

# ---- libraries are found from the real file, never in the current directory
bin=$(dirname "$kiln")
mkdir -p elsewhere links
companion=$(basename "$(dirname "$runtime")"/libkiln_debug.so.?)
echo "not a library" >"elsewhere/$companion"
ln -s "$kiln" links/kiln
for way in "$kiln" "$work/links/kiln" "../links/kiln"; do
  ran=$((ran + 1))
  (cd elsewhere && "$way" run ../m.pt2 --config check_bounds=1) >out 2>&1 || {
    echo "FAIL check_bounds through $way"
    head -3 out
    failures=$((failures + 1))
  }
done
(cd elsewhere && PATH=$work/links:$PATH LD_LIBRARY_PATH=: kiln run ../m.pt2 --config check_bounds=1) >out 2>&1
require check-bounds-through-path test $? = 0
# Alone, the command has no library to find, and must not take one from where it is run.
mkdir alone
cp "$kiln" alone/kiln
cat >planted.c <<'C'
#include <stdio.h>
__attribute__((constructor)) static void loaded(void) { fputs("PLANTED\n", stderr); }
C
if cc -shared -fPIC planted.c -o "elsewhere/$companion" 2>/dev/null; then
  (cd elsewhere && LD_LIBRARY_PATH=: ../alone/kiln run ../m.pt2 --config check_bounds=1) >out 2>&1
  require alone-is-refused test $? = 1
  require nothing-planted-is-loaded not grep -q PLANTED out
fi
# An embedder that opens the runtime by a relative path and then goes elsewhere.
cat >embed.c <<'C'
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
#include "kiln/kiln.h"
int main(int argc, char** argv) {
  void* library = dlopen(argv[1], RTLD_NOW);
  if (!library || chdir(argv[2]) != 0) return fprintf(stderr, "%s\n", dlerror()), 2;
  const char* settings[] = {"check_bounds=1"};
  kiln_load_options options = {.struct_size = sizeof options, .settings = settings, .setting_count = 1};
  kiln_model* model = NULL;
  kiln_status (*load)(const char*, const kiln_load_options*, kiln_model**) =
      (kiln_status(*)(const char*, const kiln_load_options*, kiln_model**))dlsym(library, "kiln_load");
  const char* (*message)(void) = (const char* (*)(void))dlsym(library, "kiln_last_error");
  if (!load || load(argv[3], &options, &model) != 0) return fprintf(stderr, "%s\n", message ? message() : "no kiln_load"), 1;
  return 0;
}
C
mkdir -p lib
ln -sf "$(dirname "$runtime")"/*.so* lib/
if cc -I"$source_dir/include" embed.c -o embed -ldl; then
  ./embed lib/libkiln_runtime.so elsewhere "$work/m.pt2" >out 2>&1
  require embedder-that-changes-directory test $? = 0
  head -2 out
fi

# ---- private places
umask 022
AOT_INDUCTOR_DEBUG_INTERMEDIATE_VALUE_PRINTER=1 expect saved 0 err "saving values of kernels' arguments to $TMPDIR/aoti_torch\$" -- run m.pt2
require saved-directory-is-private mode_is "$TMPDIR/aoti_torch" 700
require saved-files-are-private test -z "$(find "$TMPDIR/aoti_torch" -type f ! -perm 600)"
rm -rf "$TMPDIR/aoti_torch"
mkdir victim
ln -s "$work/victim" "$TMPDIR/aoti_torch"
AOT_INDUCTOR_DEBUG_INTERMEDIATE_VALUE_PRINTER=1 expect planted 0 err "to $TMPDIR/aoti_torch_$(id -u)\$" -- run m.pt2
require nothing-in-the-planted-link test -z "$(ls victim)"
rm "$TMPDIR/aoti_torch"
expect trace 0 err 'note: trace: ' -- compile "$model" -o x.pt2 --config TORCH_TRACE=trace
require trace-is-private mode_is trace 700
require trace-file-is-private test -z "$(find trace -type f ! -perm 600)"
expect debug 0 err 'debug directory: ' -- compile "$model" -o x.pt2 --debug
require debug-is-private test -z "$(find torch_compile_debug -mindepth 1 -type d ! -perm 700)"
rm -rf cache
expect cache-made 0 out kernel -- compile "$model" -o x.pt2 --config cache_dir="$work/cache2"
require cache-is-private mode_is cache2 700
require cache-files-are-private test -z "$(find cache2 -type f ! -perm 600)"

# ---- what cannot be written beside the work is a note, not the end of the work
touch blocked
expect no-trace 0 err 'note: no trace: ' -- compile "$model" -o x.pt2 --config TORCH_TRACE="$work/blocked"
expect no-trace-run 0 err 'no trace: ' -- run m.pt2 --config TORCH_TRACE="$work/blocked/x"
expect no-debug 0 err 'note: .*blocked' -- compile "$model" -o x.pt2 --debug --config debug_dir_root="$work/blocked"
expect no-debug-run 0 err 'blocked' -- run m.pt2 --config debug=1 --config debug_dir_root="$work/blocked"
expect no-log 0 err 'note: no log: ' -- compile "$model" -o x.pt2 --config TORCH_LOGS=fusion --config TORCH_LOGS_OUT="$work/blocked/log"
expect no-log-run 0 err 'no log: ' -- run m.pt2 --config TORCH_LOGS=fusion --config TORCH_LOGS_OUT="$work/blocked/log"
expect no-cache 0 err 'note: the kernel cache is not used' -- compile "$model" -o x.pt2 --config cache_dir="$work/blocked"
AOT_INDUCTOR_DEBUG_INTERMEDIATE_VALUE_PRINTER=1 KILN_SAVE_DIR="$work/blocked" expect no-values 0 err 'are not saved' -- run m.pt2

# ---- leftovers
cat >slow_compiler <<'SH'
#!/bin/sh
case $1 in --version) echo slow; exit 0 ;; esac
touch started
exec sleep 60
SH
chmod +x slow_compiler
ended_by() { # SIGNAL ARGS…: starts the command, and ends it while the compiler runs
  local signal=$1
  shift
  rm -f started
  # A script's background jobs ignore SIGINT; those of a user do not.
  KILN_CXX=$work/slow_compiler env --default-signal "$kiln" "$@" --config cache_dir="$work/cache3" >out 2>&1 &
  local pid=$!
  for _ in $(seq 200); do [[ -e started ]] && break || sleep 0.1; done
  kill "-$signal" $pid
  wait $pid 2>/dev/null
}
for signal in INT TERM HUP; do
  ended_by $signal compile "$model" -o ended.pt2
  require "nothing-left-after-$signal" not compgen -G "$TMPDIR/kiln-build_*"
done
# The processes of `check` end on their own, a moment later.
no_build_directory() {
  for _ in $(seq 50); do compgen -G "$TMPDIR/kiln*" >left || return 0 && sleep 0.1; done
  cat left
  return 1
}
ended_by TERM check "$model" --jobs 1
require nothing-left-of-a-check no_build_directory
ended_by KILL check "$model" --jobs 1
require nothing-left-of-a-killed-check no_build_directory
ended_by KILL compile "$model" -o ended.pt2
require something-left-after-KILL compgen -G "$TMPDIR/kiln-build_*" >/dev/null
expect next-compile 0 out kernel -- compile "$model" -o x.pt2
require removed-by-the-next-compile not compgen -G "$TMPDIR/kiln-build_*"
require no-package-of-an-ended-compile not compgen -G "$work/ended.pt2*"

# ---- a compiler that only says yes
KILN_CXX=/bin/true expect true-compiler 1 err 'error\[K0405\]: the C\+\+ compiler /bin/true .* made no shared object' -- compile "$model" -o y.pt2 --config cache_dir="$work/cache4"
require no-package test ! -e y.pt2
require nothing-cached test -z "$(ls cache4)"

# ---- names that could be code
odd=$'a\ntouch pwned;\'"$(touch pwned)'
mkdir "$odd"
cp m.pt2 "$odd/m.pt2"
cp "$model" "$odd/model.pt2"
DUMP_AOTI_MINIFIER=1 expect odd-dump 1 err 'minifier_launcher.py' -- compile "$odd/model.pt2" -o x.pt2 --config cpp.inject_relu_bug_TESTING_ONLY=compile_error --config debug_dir_root="$work/$odd/debug"
launcher=$(echo "$odd"/debug/run_*/minifier/minifier_launcher.sh)
require odd-launcher test -x "$launcher"
KILN=$work/kiln_shows
printf '#!/bin/sh\nprintf "%%s\\n" "$2" >"%s/shown"\n' "$work" >kiln_shows
chmod +x kiln_shows
KILN=$work/kiln_shows sh "$launcher" >/dev/null 2>&1
require odd-path-arrives grep -q 'exported_program.pt2' shown
if command -v python3 >/dev/null; then
  rm -f shown
  KILN=$work/kiln_shows python3 "${launcher%.sh}.py" >/dev/null 2>&1
  require odd-path-arrives-from-python grep -q 'exported_program.pt2' shown
fi
require nothing-was-run not compgen -G "pwned"
unset KILN

# ---- places that cannot be written are said, and no more
KILN_CODE_DIR=/proc/none expect code-dir 0 err 'warning: code_dir is not used: .*/proc/none' -- run m.pt2
TORCH_LOGS=output_code TORCH_LOGS_OUT=/dev/full expect full-disk 0 err 'note: the log in /dev/full is not complete: No space left' -- compile "$model" -o x.pt2
expect stripped 0 err 'written to stripped.pt2.debug' -- compile "$model" -o stripped.pt2 --strip-debug
expect other 0 err 'written to other.pt2.debug' -- compile "$source_dir/tests/cases/add/model.pt2" -o other.pt2 --strip-debug
cp other.pt2.debug stripped.pt2.debug
for command in run profile; do
  expect "$command-with-another-sidecar" 0 err 'stripped.pt2.debug belongs to another build and is not used' -- $command stripped.pt2
done
expect debug-directory 0 out kernel -- compile "$model" -o x.pt2 --config debug=1 --config debug_dir_root="$work/debugged"
for file in debugged/run_*/*/*; do require "$file-is-private" mode_is "$file" 600; done

# ---- where sources are
expect short-paths 0 out kernel -- compile "$model" -o x.pt2
"$kiln" inspect x.pt2 >inspected
require paths-are-short not grep -Eq '(^|[ "(])/[a-z]+/.*\.py' inspected

finish
