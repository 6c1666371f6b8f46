#!/usr/bin/env bash
# Repeats the long campaigns, in pieces: a piece that is finished is not run again, so that this can be stopped and
# started anew at any time. The last line adds up all pieces; the exit status is 0 only if nothing failed.
#
#   tools/campaign.sh models      mutated .pt2 files (tests/README.md, Mutants)
#   tools/campaign.sh packages    mutated packages
#   tools/campaign.sh programs    random programs
#
# options: --seed S (1)   --count N (20000; programs 10000)   --piece N (1000)   --jobs J (one per processor)
#          --build PRESET (asan-ubsan; programs release), which is built if it is not there
#          --out DIR (build/campaign): logs, what failed, compiled kernels
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

usage() {
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
  exit 2
}

what=${1:-}
shift
seed=1 count=20000 piece=1000 jobs=$(nproc) preset=asan-ubsan out=build/campaign
case $what in
  models) program=kiln_mutants arguments=(--models tests/cases) ;;
  packages) program=kiln_mutants arguments=(--models tests/cases --packages) ;;
  programs) program=kiln_random_programs arguments=() count=10000 preset=release ;;
  *) usage ;;
esac
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage
  case $1 in
    --seed) seed=$2 ;;
    --count) count=$2 ;;
    --piece) piece=$2 ;;
    --jobs) jobs=$2 ;;
    --build) preset=$2 ;;
    --out) out=$2 ;;
    *) usage ;;
  esac
  shift 2
done

binary=build/$preset/bin/$program
if [ ! -x "$binary" ]; then
  tools/build.sh "$preset" "$program" || exit 1
fi
logs=$out/${what}_$seed
mkdir -p "$logs"

# "400 mutants: 186 right, 0 not run, 1 unstable, 213 refused, 0 failed" and "99 good, 1 unstable, 0 refused, 0 failed"
last_line='^([0-9]+ mutants: )?[0-9]+ (right|good), .* [0-9]+ failed$'
for ((first = 0; first < count; first += piece)); do
  log=$logs/$first.log
  here=$((count - first < piece ? count - first : piece))
  if [ -f "$log" ] && tail -n 1 "$log" | grep -q -E "$last_line"; then continue; fi
  "$binary" "${arguments[@]}" --seed "$seed" --first "$first" --count "$here" --jobs "$jobs" --cache "$out/kernels" \
    --save "$logs/failures" >"$log.part" 2>"$log.progress"
  mv "$log.part" "$log"
  echo "$what, seed $seed, $first to $((first + here - 1)): $(tail -n 1 "$log")"
  grep -A 1 '^FAIL' "$log"
done

judged=0 failed=0 unfinished=0
for ((first = 0; first < count; first += piece)); do
  if line=$(tail -n 1 "$logs/$first.log" | grep -E "$last_line"); then
    failed=$((failed + $(grep -o -E '[0-9]+ failed' <<<"$line" | cut -d ' ' -f 1)))
    judged=$((judged + $(sed -E 's/^[0-9]+ mutants: //' <<<"$line" | grep -o -E '[0-9]+' | paste -s -d +)))
  else
    unfinished=$((unfinished + 1))
  fi
done
echo "$what, seed $seed, $preset: $judged judged, $failed failed, $unfinished pieces unfinished"
[ "$failed" -eq 0 ] && [ "$unfinished" -eq 0 ]
