#!/bin/bash
# No false alarm on whole folders: compiles every case directory below the given ones (each has a model.pt2 and inputs_*.pt)
# and bisects it with each of its inputs. Prints every alarm, and every program that could not be compiled, and a count.
#   tools/bisect_cases.sh KILN [--custom-op-lib LIB]… DIR…
set -u
kiln=$1
shift
custom=()
while [ "${1:-}" = --custom-op-lib ]; do
  custom+=(--custom-op-lib "$2")
  shift 2
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
programs=0 runs=0 alarms=0 refused=0
while IFS= read -r model; do
  folder=$(dirname "$model")
  package=$work/model.kiln.pt2
  if ! "$kiln" compile "$model" -o "$package" ${custom[@]+"${custom[@]}"} >"$work/log" 2>&1; then
    echo "not compiled: $folder: $(grep -m1 '^error' "$work/log")"
    refused=$((refused + 1))
    continue
  fi
  programs=$((programs + 1))
  for inputs in "$folder"/inputs_*.pt; do
    [ -f "$inputs" ] || continue
    runs=$((runs + 1))
    if ! "$kiln" bisect "$package" --inputs "$inputs" >"$work/log" 2>&1; then
      echo "alarm: $inputs"
      sed 's/^/  /' "$work/log"
      alarms=$((alarms + 1))
    fi
  done
done < <(find "$@" -name model.pt2 | sort)
echo "$programs programs, $runs runs, $alarms alarms, $refused not compiled"
[ "$alarms" = 0 ]
