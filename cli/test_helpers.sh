# What the tests of the command share. Sourced with $kiln and $source_dir set; ends with `finish`.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# What the caller's environment has for Kiln, or looks as if, would be spoken of.
for variable in $(compgen -e KILN_ || true); do unset "$variable"; done
export KILN_CACHE_DIR="$work/cache"
failures=0
ran=0

# expect NAME EXIT_CODE STREAM PATTERN -- ARGS…: the exit code, and an extended regular expression that the stream has.
expect() {
  local name=$1 code=$2 stream=$3 pattern=$4
  shift 5
  PATH=${kiln_path-$PATH} "$kiln" "$@" >"$work/out" 2>"$work/err"
  local got=$?
  ran=$((ran + 1))
  if [[ $got != "$code" ]]; then
    echo "FAIL $name: exit code $got, expected $code: kiln $*"
    sed 's/^/    /' "$work/err" | head -5
    failures=$((failures + 1))
  elif ! grep -Eq -- "$pattern" "$work/$stream"; then
    echo "FAIL $name: std$stream of 'kiln $*' lacks: $pattern"
    sed 's/^/    /' "$work/$stream" | head -5
    failures=$((failures + 1))
  fi
}
# require NAME CONDITION…
require() {
  local name=$1
  shift
  ran=$((ran + 1))
  if ! "$@"; then
    echo "FAIL $name: $*"
    failures=$((failures + 1))
  fi
}
last_line_is() { [[ $(tail -n 1 "$1") == "$2" ]]; }
is_empty() { [[ ! -s $1 ]]; }
not() { ! "$@"; }

finish() {
  echo "$((ran - failures)) passed, $failures failed, 0 skipped"
  [[ $failures == 0 ]]
}
