#!/usr/bin/env bash
# faults_on_gpu.sh KILN FOLDER: runs the packages with faults that faults_test.sh has kept in the folder, on a GPU, all at
# once: each tool must name the kernel that has the fault, and its source line.
set -uo pipefail
kiln=$1 folder=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
while IFS=$'\t' read -r name tool kernel line says; do
  (
    out=$work/$name
    case $tool in
      run) timeout 60 "$kiln" run "$folder/$name.pt2" > "$out" 2>&1 ;;
      nan) TORCHINDUCTOR_NAN_ASSERTS=1 timeout 60 "$kiln" run "$folder/$name.pt2" > "$out" 2>&1 ;;
      bisect) timeout 60 "$kiln" bisect "$folder/$name.pt2" > "$out" 2>&1 ;;
    esac
    if grep -q "$says" "$out" && grep -Eq "(kernel|step) $kernel( |\$|,)" "$out" && grep -qF -- "--> $line" "$out"; then
      echo "ok $name"
    else
      echo "FAIL $name ($tool, $kernel): $(head -c 1200 "$out")"
    fi
  ) &
done < "$folder/list"
wait
