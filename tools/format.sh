#!/usr/bin/env bash
# Rewrites the C++ sources in the house style (.clang-format); with --check it only names the files that differ.
# The style's fine points change between versions of clang-format: Debian 12's (14) is the one that counts. Where
# another or none is installed the check is skipped (exit 77, which ctest counts as skipped).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

program=clang-format
command -v clang-format-14 >/dev/null && program=clang-format-14
if ! "$program" --version 2>/dev/null | grep -q 'version 14\.'; then
  echo "clang-format 14 is not installed: skipped"
  exit 77
fi

mapfile -t files < <(find src include runtime cli python tests bench examples -type f \
  \( -name '*.cpp' -o -name '*.h' -o -name '*.hpp' -o -name '*.c' -o -name '*.cu' \) 2>/dev/null | sort)
if [ "${1:-}" != --check ]; then
  "$program" -i "${files[@]}"
  exit
fi
mapfile -t differ < <(printf '%s\0' "${files[@]}" | xargs -0 -n 8 -P "$(nproc)" "$program" --dry-run 2>&1 |
  sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: warning: code should be clang-formatted.*/\1/p' | sort -u)
if [ ${#differ[@]} -gt 0 ]; then
  printf '%s\n' "These files are not in the house style; tools/format.sh rewrites them:" "${differ[@]/#/  }"
  exit 1
fi
echo "${#files[@]} files in the house style"
