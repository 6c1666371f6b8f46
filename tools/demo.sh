#!/usr/bin/env bash
# Builds Kiln, compiles a small trained network that lives in the repository (examples/digits) and lets it read some
# handwritten-looking digits. Needs nothing but a Debian 12: what is missing is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/build.sh release kiln read_digits

model=examples/digits/model.pt2
package=build/demo/digits.kiln.pt2
mkdir -p build/demo
printf '\n$ kiln compile %s -o %s\n' "$model" "$package"
start=$(date +%s%N)
build/release/bin/kiln compile "$model" -o "$package"
printf 'compiled in %d ms\n' $((($(date +%s%N) - start) / 1000000))

printf '\n$ read_digits %s examples/digits/sample.npy examples/digits/sample_labels.txt\n' "$package"
build/release/bin/read_digits "$package" examples/digits/sample.npy examples/digits/sample_labels.txt
