#!/usr/bin/env bash
# The suites on a machine with a GPU, in pieces: packages are compiled ahead, anywhere, each with its calls and expected
# results in it (kiln compile --bundle); the machine with the GPU needs kiln, its libraries and the driver, nothing else.
#
#   tools/gpu_suite.sh prepare DIR --shard I/N [--target sm_90a] CASES…   compiles shard I of N into DIR/shard_I
#   tools/gpu_suite.sh run     DIR --shard I/N [--sanitize K [--tool T]]  runs it: DIR/results/shard_I.json
#   tools/gpu_suite.sh merge   DIR                                        all results, and what failed
#
# CASES are folders of cases (tests/cases, a corpus) or models (.pt2, compared with the reference). Each command may be
# interrupted and goes on where it was: a package that is there is not compiled again, nor a shard that has results run. A
# shard ends after 8 minutes at most (KILN_SUITE_SECONDS): what was not reached counts as skipped. --sanitize K: every K-th
# package of the shard also runs under compute-sanitizer, with --tool memcheck (default), racecheck, initcheck or synccheck;
# --tool may come several times. One process takes many packages (KILN_SANITIZE_CHUNK, default 20), several run at a time
# (KILN_SANITIZE_JOBS, default 4); a chunk that is not clean is run again package by package. What was found is in
# DIR/results/shard_I.TOOL.found. `run` of a shard that has results sanitizes only.
# KILN: the command (default build/release/bin/kiln). The last line is "N passed, N failed, N skipped".
set -uo pipefail
kiln=${KILN:-$(dirname "$0")/../build/release/bin/kiln}
command=${1:-} dir=${2:-}
[ -n "$command" ] && [ -n "$dir" ] || { sed -n '2,19p' "$0" | sed 's/^# \{0,1\}//'; exit 2; }
shift 2
shard=1 shards=1 target=sm_90a sanitize=0 tools=() cases=()
while [ $# -gt 0 ]; do
  case $1 in
    --shard) shard=${2%/*} shards=${2#*/}; shift 2 ;;
    --target) target=$2; shift 2 ;;
    --sanitize) sanitize=$2; shift 2 ;;
    --tool) tools+=("$2"); shift 2 ;;
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
  local seconds=${KILN_SUITE_SECONDS:-470} began=$SECONDS
  if [ -f "$results/shard_$shard.json" ]; then
    echo "shard $shard has results: $results/shard_$shard.json"
  else
    find "$folder" -name '*.pt2' | sort > "$results/shard_$shard.list"
    xargs -r timeout "$seconds" "$kiln" check --timeout 60 --json "$results/shard_$shard.part" \
      < "$results/shard_$shard.list" > "$results/shard_$shard.text" 2>&1
    [ -f "$results/shard_$shard.part" ] && mv "$results/shard_$shard.part" "$results/shard_$shard.json"
    tail -n 1 "$results/shard_$shard.text"
  fi
  [ "$sanitize" -gt 0 ] || return 0
  [ ${#tools[@]} -gt 0 ] || tools=(memcheck)
  for tool in "${tools[@]}"; do sanitize_with "$tool" $((began + seconds)); done
}

# Whether compute-sanitizer's tool, given first, finds nothing in these packages, all in one process. What it says goes to
# the file given second.
sanitized() {
  local tool=$1 log=$2
  shift 2
  timeout 200 compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 5 "$kiln" check -j 0 "$@" > "$log" 2>&1
}

# One chunk: "N clean, N not" on a line; what is found, package by package.
sanitize_chunk() {
  local tool=$1 deadline=$2 log clean=0 dirty=0
  shift 2
  log=$(mktemp)
  if sanitized "$tool" "$log" "$@"; then
    clean=$#
  else
    for package; do
      [ "$(date +%s)" -lt "$deadline" ] || break
      if sanitized "$tool" "$log" "$package"; then
        clean=$((clean + 1))
      else
        dirty=$((dirty + 1))
        { echo "## $package"; tail -n 30 "$log"; } >> "$results/shard_$shard.$tool.found"
      fi
    done
  fi
  rm -f "$log"
  echo "$clean $dirty"
}

# Until so many seconds of this shell have gone by.
sanitize_with() {
  local tool=$1 deadline=$(($(date +%s) + $2 - SECONDS)) chunk=${KILN_SANITIZE_CHUNK:-20} asked
  command -v compute-sanitizer > /dev/null || { echo "there is no compute-sanitizer here" >&2; return; }
  rm -f "$results/shard_$shard.$tool.found"
  asked=$(awk "NR % $sanitize == 0" "$results/shard_$shard.list" | wc -l)
  export -f sanitize_chunk sanitized
  export kiln results shard
  awk "NR % $sanitize == 0" "$results/shard_$shard.list" |
    xargs -r -n "$chunk" -P "${KILN_SANITIZE_JOBS:-4}" bash -c \
      '[ "$(date +%s)" -lt "$1" ] || exit 0; sanitize_chunk "$0" "$@"' "$tool" "$deadline" |
    awk -v tool="$tool" -v asked="$asked" '{ clean += $1; dirty += $2 }
      END { printf "compute-sanitizer %s: %d clean, %d not, %d not reached\n", tool, clean, dirty, asked - clean - dirty }' |
    tee "$results/shard_$shard.$tool.sum"
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
  cat "$results"/shard_*.sum 2> /dev/null
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ]
}

case $command in
  prepare | run | merge) "$command" ;;
  *) echo "there is no command $command: prepare, run, merge" >&2; exit 2 ;;
esac
