#!/usr/bin/env bash
# instruction_counts_test.sh KILN SOURCE_DIR [--update]: instructions of one call of the cases in
# tests/instruction_counts.txt, beside the counts kept there; --update writes them. Counted by callgrind inside kiln_run, the
# first call's work for all later ones shared among the calls: loading does not count, a busy machine changes nothing. More than
# 2 % above fails; so does more than 5 % below, for then the kept count watches nothing any more.
set -euo pipefail
kiln=$1 source=$2
[ "${3:-}" = --update ] && update=1 || update=0
kept=$source/tests/instruction_counts.txt
command -v valgrind >/dev/null || { echo "valgrind is not installed: skipped"; exit 77; }
# Another compiler makes other machine code of the same kernels.
compiler=$(g++ -dumpversion 2>/dev/null || echo none)
made_by=$(sed -n 's/^# g++ //p' "$kept")
if [ "$compiler" != "$made_by" ]; then
  echo "counts kept for g++ $made_by, not $compiler: skipped"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
sed '/^[^#]/,$d' "$kept" >"$work/new"
while read -r name target calls before; do
  [[ -z $name || $name == \#* ]] && continue
  "$kiln" compile "$source/tests/cases/$name/model.pt2" --target "$target" --config cpp.threads=1 \
    -o "$work/$name.pt2" >/dev/null 2>&1
  # The command calls once before it repeats.
  valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect=kiln_run "$kiln" run "$work/$name.pt2" \
    --repeat $((calls - 1)) >/dev/null 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
  now=$(($(sed -n 's/.*Collected : //p' "$work/log") / calls))
  echo "$name $target $calls $now" >>"$work/new"
  if awk -v now="$now" -v before="$before" 'BEGIN { exit !(now <= before * 1.02 && now >= before * 0.95) }'; then
    passed=$((passed + 1))
  else
    echo "FAIL $name $target: $now instructions a call where $before are kept (--update keeps the new ones)"
    failed=$((failed + 1))
  fi
done <"$kept"
if [ "$update" = 1 ]; then
  cp "$work/new" "$kept"
  failed=0
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
