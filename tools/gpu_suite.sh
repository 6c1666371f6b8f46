#!/usr/bin/env bash
# The suites on a machine with a GPU, in pieces: packages are compiled ahead, anywhere, each with its calls and expected
# results in it (kiln compile --bundle); the machine with the GPU needs kiln, its libraries and the driver, nothing else.
#
#   tools/gpu_suite.sh prepare DIR --shard I/N [--target sm_90a] CASES…   compiles shard I of N into DIR/shard_I
#   tools/gpu_suite.sh run     DIR --shard I/N [--sanitize K]             runs it: DIR/results/shard_I.json
#   tools/gpu_suite.sh merge   DIR                                        all results, and what failed
#
# CASES are folders of cases (tests/cases, a corpus) or models (.pt2, compared with the reference). Each command may be
# interrupted and goes on where it was: a package that is there is not compiled again, nor a shard that has results run. A
# shard ends after 8 minutes at most (KILN_SUITE_SECONDS): what was not reached counts as skipped. --sanitize K: every K-th
# package of the shard also runs under compute-sanitizer's memcheck.
# KILN: the command (default build/release/bin/kiln). The last line is "N passed, N failed, N skipped".
set -uo pipefail
kiln=${KILN:-$(dirname "$0")/../build/release/bin/kiln}
command=${1:-} dir=${2:-}
[ -n "$command" ] && [ -n "$dir" ] || { sed -n '2,15p' "$0" | sed 's/^# \{0,1\}//'; exit 2; }
shift 2
shard=1 shards=1 target=sm_90a sanitize=0 cases=()
while [ $# -gt 0 ]; do
  case $1 in
    --shard) shard=${2%/*} shards=${2#*/}; shift 2 ;;
    --target) target=$2; shift 2 ;;
    --sanitize) sanitize=$2; shift 2 ;;
    -*) echo "there is no option $1" >&2; exit 2 ;;
    *) cases+=("$1"); shift ;;
  esac
done
folder=$dir/shard_$shard results=$dir/results

# Every case, one a line: folders with a model.pt2 in them, or models.
list_cases() {
  for path in "${cases[@]}"; do
    if [ -f "$path" ]; then echo "$path"; else find "$path" -name model.pt2 -printf '%h\n' | sort; fi
  done
}

prepare() {
  mkdir -p "$folder"
  local number=0 compiled=0 refused=0 name model
  while read -r case; do
    number=$((number + 1))
    [ $(((number - 1) % shards + 1)) -eq "$shard" ] || continue
    name=$(sed 's#^.*/\(cases\|ops\|programs\|corpus\)/#\1/#; s#/#__#g; s#\.pt2$##' <<< "$case")
    if [ -f "$folder/$name.pt2" ] || [ -f "$folder/$name.refused" ]; then continue; fi
    if [ -d "$case" ]; then model=("$case/model.pt2" --bundle "$case"); else model=("$case"); fi
    if "$kiln" compile "${model[@]}" --device cuda --target "$target" --strip-debug -o "$folder/$name.part" --quiet \
      > "$folder/$name.log" 2>&1; then
      mv "$folder/$name.part" "$folder/$name.pt2"
      compiled=$((compiled + 1))
    else
      mv "$folder/$name.log" "$folder/$name.refused"
      refused=$((refused + 1))
    fi
    rm -f "$folder/$name.log" "$folder/$name".part*
  done < <(list_cases)
  echo "shard $shard of $shards: $compiled compiled, $refused refused, $(du -sm "$folder" | cut -f1) MB"
}

run() {
  mkdir -p "$results"
  [ -f "$results/shard_$shard.json" ] && { echo "shard $shard has results: $results/shard_$shard.json"; return; }
  local seconds=${KILN_SUITE_SECONDS:-470} began=$SECONDS
  find "$folder" -name '*.pt2' | sort > "$results/shard_$shard.list"
  xargs -r timeout "$seconds" "$kiln" check --timeout 60 --json "$results/shard_$shard.part" \
    < "$results/shard_$shard.list" > "$results/shard_$shard.text" 2>&1
  [ -f "$results/shard_$shard.part" ] && mv "$results/shard_$shard.part" "$results/shard_$shard.json"
  tail -n 1 "$results/shard_$shard.text"
  [ "$sanitize" -gt 0 ] || return 0
  local clean=0 dirty=0
  for package in $(awk "NR % $sanitize == 0" "$results/shard_$shard.list"); do
    [ $((SECONDS - began)) -lt "$seconds" ] || break
    if timeout 60 compute-sanitizer --tool memcheck --error-exitcode 9 "$kiln" check "$package" -j 1 \
      > "$results/sanitizer.text" 2>&1; then
      clean=$((clean + 1))
    else
      dirty=$((dirty + 1))
      { echo "$package"; tail -n 30 "$results/sanitizer.text"; } >> "$results/shard_$shard.sanitizer"
    fi
  done
  echo "compute-sanitizer memcheck: $clean clean, $dirty not" | tee "$results/shard_$shard.memcheck"
}

# The sums of all shards: what check says at the end of each, refused models, and what was not reached.
merge() {
  local passed=0 failed=0 skipped=0 line
  for text in "$results"/shard_*.text; do
    [ -f "$text" ] || continue
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped' "$text" | tail -n 1)
    if [ -z "$line" ]; then
      line="0 passed, 0 failed, $(wc -l < "${text%.text}.list") skipped"
      echo "$(basename "$text" .text): not finished"
    fi
    read -r p f s < <(sed 's/[^0-9]*\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped.*/\1 \2 \3/' <<< "$line")
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    grep -E '^FAIL' "$text"
  done
  for refused in "$dir"/shard_*/*.refused; do
    [ -f "$refused" ] || continue
    echo "not compiled: $(basename "$refused" .refused): $(grep -m 1 'error' "$refused")"
    skipped=$((skipped + 1))
  done
  cat "$results"/shard_*.memcheck 2> /dev/null
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ]
}

case $command in
  prepare | run | merge) "$command" ;;
  *) echo "there is no command $command: prepare, run, merge" >&2; exit 2 ;;
esac
