#!/usr/bin/env bash
# Runs the commands of the documents and compares what they print with what the documents say.
#   docs_test.sh KILN SOURCE_DIR [FILE.md…]
#
# A fenced block whose lines begin with "$ " is a session: each command is run by bash, all of one document in one
# directory that has tests/, examples/ and tools/ of the repository in it, and what it prints (standard error and
# output) must be what follows it. Numbers, checksums and units of time and size are masked and runs of spaces count as
# one; "…" stands for anything, a line that is only "…" for any lines; "Segmentation fault" is the shell's. Without
# expected lines only the exit code counts. Between fences:
#   <!-- docs-test: run COMMAND -->     run before the next block, not shown to readers
#   <!-- docs-test: skip REASON -->     the next block is not run; it is listed with the reason
# A block that has commands of Kiln without "$ " fails the test: it would go stale unnoticed. Run over all documents, the
# test also compares the commands that `kiln help` lists with the sections of docs/commands.md and what it refers to.
set -uo pipefail
kiln=$1
source_dir=$(cd "$2" && pwd)
shift 2
all=$(($# == 0))
if [[ $# -gt 0 ]]; then
  documents=("$@")
else
  documents=("$source_dir"/README.md "$source_dir"/docs/*.md)
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
printf '#!/bin/sh\nexec "%s/%s" "$@"\n' "$(cd "$(dirname "$kiln")" && pwd)" "$(basename "$kiln")" >"$work/bin/kiln"
chmod +x "$work/bin/kiln"
PATH=$work/bin:$PATH
# What the caller's environment has for Kiln, or looks as if, would be spoken of.
for variable in $(compgen -e KILN_ || true); do unset "$variable"; done
export PATH KILN_CACHE_DIR="$work/cache" LC_ALL=C.UTF-8
ran=0 failures=0 skipped=0

masked() {
  sed -E -e 's/run_[0-9_]+-pid_[0-9]+/RUN/g' -e 's/0x[0-9a-f]+/X/g' -e 's/-?[0-9]+[.][0-9]+(e[-+]?[0-9]+)?/N/g' \
    -e 's/[0-9a-f]{16,}/H/g' -e 's/(crc32 )[0-9a-f]{8}/\1H/' \
    -e 's/, from the cache//' -e 's/-?[0-9]+([.,][0-9]+)*(e[-+]?[0-9]+)?/N/g' \
    -e 's/[-+]?N %/N %/g' -e 's/N ?(ns|µs|us|ms|s|B|kB|MB|GB|k|M|G|T)([^A-Za-z]|$)/N U\2/g' -e 's/[[:space:]]+/ /g' -e 's/ $//' -e 's/\[ N/[N/g' \
    -e '/^$/d' -e '/^Segmentation fault$/d'
}

# Whether the masked text $2 is $1, where "…" stands for anything. Everything else is taken literally.
matches() {
  local pattern=$'\n'$1$'\n'
  pattern=$(printf '%s.' "$pattern" | sed -e 's/[][\\*?]/\\&/g' -e 's/^…$/\a/' -e 's/…/*/g')
  pattern=${pattern%.}
  pattern=${pattern//$'\a\n'/'*'}
  # shellcheck disable=SC2053
  [[ $'\n'$2$'\n' == $pattern ]]
}

# run_command DOCUMENT LINE COMMAND EXPECTED
run_command() {
  local actual code
  ran=$((ran + 1))
  actual=$(cd "$place" && bash -c "$3" 2>&1 </dev/null)
  code=$?
  if [[ -z $4 ]]; then
    [[ $code == 0 ]] && return
    echo "FAIL $1:$2: exit code $code: $3"
  else
    local want have
    want=$(masked <<<"$4")
    have=$(masked <<<"$actual")
    matches "$want" "$have" && return
    echo "FAIL $1:$2: $3"
    diff <(echo "$want") <(echo "$have") | head -${DOCS_TEST_LINES:-12} | sed 's/^/    /'
  fi
  failures=$((failures + 1))
}

# session DOCUMENT LINE LINES…
session() {
  local document=$1 number=$2 command='' expected='' at=0 line
  shift 2
  for line in "$@" '$ '; do
    number=$((number + 1))
    if [[ $line == '$ '* ]]; then
      [[ -n $command ]] && run_command "$document" "$at" "$command" "$expected"
      command=${line#'$ '} expected='' at=$number
    elif [[ $command == *\\ && -z $expected ]]; then
      command+=$'\n'$line
    else
      expected+=${expected:+$'\n'}$line
    fi
  done
}

for document in "${documents[@]}"; do
  name=${document#"$source_dir"/}
  place=$work/$(basename "$document" .md)
  mkdir -p "$place"
  ln -s "$source_dir"/{tests,examples,tools} "$place"
  inside=0 skip='' number=0 block=()
  while IFS= read -r line || [[ -n $line ]]; do
    number=$((number + 1))
    if [[ $line =~ ^'<!-- docs-test: '(skip|run)' '(.*)' -->'$ ]]; then
      if [[ ${BASH_REMATCH[1]} == skip ]]; then
        skip=${BASH_REMATCH[2]}
      else
        run_command "$name" "$number" "${BASH_REMATCH[2]}" ''
      fi
    elif ((!inside)) && [[ $line =~ ^\`\`\`([a-z]*)$ ]]; then
      inside=1 language=${BASH_REMATCH[1]} began=$number block=()
    elif ((inside)) && [[ $line == '```' ]]; then
      inside=0
      if [[ -n $skip ]]; then
        skipped=$((skipped + 1))
        echo "skipped $name:$began: $skip"
      elif [[ -z $language && ${block[0]-} == '$ '* ]]; then
        session "$name" "$began" "${block[@]}"
      elif [[ ${#block[@]} == 1 && ${block[0]} =~ ^[A-Z_]+$ ]]; then
        echo "FAIL $name:$began: ${block[0]} stands where something is to be filled in"
        failures=$((failures + 1))
      elif [[ -z $language ]] && printf '%s\n' "${block[@]}" | grep -Eq '^(([A-Z_]+=[^ ]* )*(build/[a-z]+/bin/)?kiln |tools/[a-z_]+[.]sh)'; then
        echo "FAIL $name:$began: commands are written as '\$ command'"
        failures=$((failures + 1))
      fi
      skip=''
    elif ((inside)); then
      block+=("$line")
    fi
  done <"$document"
done
# Every command has its section, here or in the document named for it; no section is of a command that is gone.
if ((all)); then
  mapfile -t commands < <("$kiln" help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
  [[ ${#commands[@]} -gt 5 ]] || { echo "FAIL 'kiln help' lists no commands"; failures=$((failures + 1)); }
  for command in "${commands[@]}"; do
    ran=$((ran + 1))
    grep -Eqx "##+ .*kiln $command.*" "$source_dir"/docs/*.md && continue
    echo "FAIL docs/: no section '## kiln $command'"
    failures=$((failures + 1))
  done
  while read -r section; do
    ran=$((ran + 1))
    [[ " ${commands[*]} --version " == *" $section "* ]] && continue
    echo "FAIL docs/commands.md: there is no command '$section'"
    failures=$((failures + 1))
  done < <(sed -n 's/^## kiln //p' "$source_dir/docs/commands.md")
fi
echo "$((ran - failures)) passed, $failures failed, $skipped skipped"
[[ $failures == 0 ]]
