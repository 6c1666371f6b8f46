#!/usr/bin/env bash
# What the shells complete, and the manual pages.
#   completion_test.sh KILN SOURCE_DIR
# bash is there wherever this runs; zsh and fish are tested where they are installed, and named where they are not.
set -uo pipefail
kiln=$(realpath "$1") source=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
ran=0 failures=0
fail() {
  echo "FAIL $*"
  failures=$((failures + 1))
}
mapfile -t commands < <("$kiln" help | sed -n '/^commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p')
touch model.pt2 "with space.pt2" other.npz

# ---- bash: the words as readline breaks them
"$kiln" completion bash >kiln.bash
# shellcheck disable=SC1091
source ./kiln.bash || exit 1
completed() { # LINE: what is completed at its end, sorted
  COMP_LINE=$1 COMP_POINT=${#1}
  local rest
  rest=${1//=/ = }
  read -ra COMP_WORDS <<<"$rest"
  [[ $1 == *[[:space:]] ]] && COMP_WORDS+=('')
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  COMPREPLY=()
  _kiln 2>/dev/null
  printf '%s\n' "${COMPREPLY[@]}" | sort | paste -sd, -
}
expect() { # LINE WORDS
  ran=$((ran + 1))
  local actual
  actual=$(completed "$1")
  [[ $actual == "$2" ]] || fail "bash: '$1' gives '$actual', not '$2'"
}
expect 'kiln comp' "$(printf '%s\n' "${commands[@]}" | grep '^comp' | sort | paste -sd, -)"
expect 'kiln --v' --version
expect 'kiln help pro' profile
expect 'kiln cache ' clear,ls,stat
expect 'kiln check x --back' --backend
expect 'kiln check x --backend l' loops
expect 'kiln check x --backend=l' loops
expect 'kiln run mod' model.pt2
expect 'kiln run w' 'with space.pt2'
expect 'kiln run model.pt2 --inputs o' other.npz
expect 'kiln run model.pt2 --inputs=o' other.npz
expect 'kiln run model.pt2 -o ot' other.npz
expect 'kiln run model.pt2 --repeat ' ''
expect 'kiln compile model.pt2 --stop-after functional' functionalize
expect 'kiln compile model.pt2 --target x86-64-v' x86-64-v2,x86-64-v3,x86-64-v4,x86-64-v4+bf16,x86-64-v4+bf16+amx,x86-64-v4+vnni
expect 'kiln compile model.pt2 --device c' cpu,cuda
expect 'kiln run model.pt2 --config nan_as' nan_asserts=,nan_asserts_infinities=
expect 'kiln run model.pt2 --config nan_asserts=' 0,1
expect 'kiln run model.pt2 --config=nan_asserts=1' 1
expect 'kiln settings nan_' nan_asserts,nan_asserts_infinities
expect 'kiln nonsense ' ''
# Every option of every command, and every setting.
for command in "${commands[@]}"; do
  want=$("$kiln" help "$command" | sed -n '/^options:/,/^$/s/^  \(-., \)\{0,1\}\(--[a-z0-9-]*\).*/\2/p' | sort | paste -sd, -)
  expect "kiln $command --" "$want"
done
expect 'kiln settings ' "$("$kiln" settings --markdown | sed -n 's/^| `\([^`]*\)`.*/\1/p' | sort | paste -sd, -)"

# ---- zsh and fish
"$kiln" completion zsh >_kiln
"$kiln" completion fish >kiln.fish
for shell in zsh fish; do
  if ! command -v "$shell" >/dev/null; then
    echo "$shell is not installed: its completion is not tried"
    continue
  fi
  ran=$((ran + 1))
  "$shell" -n "$([ $shell = zsh ] && echo _kiln || echo kiln.fish)" || fail "$shell does not read its script"
done
if command -v fish >/dev/null; then
  for pair in 'kiln cache |clear,ls,stat' 'kiln run model.pt2 --config check_bo|check_bounds=0,check_bounds=1' \
    'kiln check x --backend l|loops' 'kiln run --inp|--inputs' 'kiln run mod|model.pt2' 'kiln help prof|profile' \
    'kiln settings check_bo|check_bounds'; do
    ran=$((ran + 1))
    actual=$(HOME=$work fish --no-config -c "source kiln.fish; complete -C '${pair%%|*}'" | cut -f 1 | sort | paste -sd, -)
    [[ $actual == "${pair#*|}" ]] || fail "fish: '${pair%%|*}' gives '$actual', not '${pair#*|}'"
  done
fi
if command -v zsh >/dev/null; then
  # A shell of its own behind a terminal of its own: what Tab offers is printed.
  zsh_completed() { # LINE
    HOME=$work zsh -f -c '
      zmodload zsh/zpty
      zpty it zsh -f -i
      zpty -w it "PROMPT=; unsetopt zle_bracketed_paste 2>/dev/null; fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -D; setopt list_rows_first; LISTMAX=10000; zstyle \":completion:*\" list-grouped false; bindkey \"^I\" list-choices; print READY"
      zpty -r -m it text "*READY*"; sleep 0.5
      zpty -n -w it "$2"$'"'\\t'"'
      sleep 2
      zpty -r -t it text; while zpty -r -t it more; do text+=$more; done
      print -r -- $text
      zpty -d it' zsh "$work" "$1" | tr -d '\r'
  }
  for pair in 'kiln cache |clear' 'kiln check x --backend |loops' 'kiln run model.pt2 --config nan_|nan_asserts' \
    'kiln comp|compile' 'kiln compile model.pt2 --config triton.inject_relu_bug_TESTING_ONLY=|runtime_error'; do
    ran=$((ran + 1))
    zsh_completed "${pair%%|*}" >out 2>&1
    grep -q "${pair#*|}" out || { fail "zsh: '${pair%%|*}' does not offer '${pair#*|}'"; head -5 out; }
  done
fi

# ---- manual pages: one for each command, with each of its options
"$source/cmake/man_pages.sh" "$kiln" man1 || fail "the pages cannot be made"
for command in "${commands[@]}"; do
  ran=$((ran + 1))
  for option in $("$kiln" help "$command" | sed -n '/^options:/,/^$/s/^  \(-., \)\{0,1\}\(--[a-z0-9-]*\).*/\2/p'); do
    grep -q "^[.]B .*${option//-/\\\\-}" "man1/kiln-$command.1" || fail "kiln-$command.1 lacks $option"
  done
  grep -q "kiln.\\-$command" man1/kiln.1 || fail "kiln.1 does not name kiln-$command"
done
if command -v groff >/dev/null; then
  ran=$((ran + 1))
  for page in man1/*.1; do groff -Kutf8 -man -Tutf8 -ww -z "$page"; done >out 2>&1
  [[ -s out ]] && { fail "groff warns"; head -5 out; }
fi
echo "$((ran - failures)) passed, $failures failed"
[[ $failures == 0 ]]
