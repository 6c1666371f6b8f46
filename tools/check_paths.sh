#!/usr/bin/env bash
# Fails when a file of the repository, text or binary, names a place on the machine where it was made.
# Exported models are the usual culprit: each node carries the absolute path of the Python file that made it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  echo "not a git checkout: skipped"
  exit 77
fi
# Assembled here so that this file does not match itself.
places="(^|[^A-Za-z0-9_./-])/(home|root|work|opt|Users)/[A-Za-z0-9_.]"
found=$(git ls-files -z --cached --others --exclude-standard | xargs -0 grep -a -n -o -E -- "$places.{0,60}" 2>/dev/null || true)
if [ -n "$found" ]; then
  printf '%s\n' "Committed files name places of a particular machine:" "$found"
  exit 1
fi
echo "no file names a place of a particular machine"
