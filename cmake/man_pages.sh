#!/usr/bin/env bash
# Manual pages from what the command says of itself: kiln.1, and kiln-COMMAND.1 for each command that `kiln help` lists.
#   man_pages.sh KILN DIRECTORY
set -euo pipefail
kiln=$1 directory=$2
version=$("$kiln" --version | sed -n '1s/^kiln //p')
mkdir -p "$directory"

# The parts of a help text: one line that says what it is; "usage: …" up to an empty line; paragraphs; then headings
# ("options:") with indented entries whose explanation stands behind two spaces, or on indented lines below.
page() { # NAME < HELP
  LC_ALL=C.UTF-8 awk -v name="$1" -v version="$version" '
    function escaped(text) {
      gsub(/\\/, "\\e", text)
      gsub(/-/, "\\-", text)
      if (text ~ /^[.\047]/) text = "\\&" text
      return text
    }
    function heading(text) { print ".SH " toupper(text) }
    NR == 1 {
      printf ".TH %s 1 \"\" \"Kiln %s\" \"Kiln\"\n", toupper(name), version
      heading("Name")
      sub("^" name " ", "")
      print escaped(name) " \\- " escaped($0)
      next
    }
    /^usage: / { heading("Synopsis"); part = "usage"; sub(/^usage: /, ""); print escaped($0); next }
    /^[a-z]+:$/ { part = substr($0, 1, length($0) - 1); heading(part); next }
    /^$/ { part = ""; next }
    part == "usage" { sub(/^ +/, ""); print escaped($0); next }
    part == "examples" { sub(/^ +/, ""); print ".PP\n.nf\n" escaped($0) "\n.fi"; next }
    /^  +[^ ]/ {
      indent = match($0, /[^ ]/) - 1
      text = substr($0, indent + 1)
      if (indent > 4) { print escaped(text); next } # goes on
      if (part == "") { part = "options"; heading(part) } # those below the list of commands
      at = match(text, /   *[^ ]/)
      print ".TP\n.B " escaped(at ? substr(text, 1, at - 1) : text)
      if (at) { text = substr(text, at); sub(/^ +/, "", text); print escaped(text) }
      next
    }
    {
      if (part != "text") { heading("Description"); part = "text"; before = "" }
      if (before != "" && length(before) + 1 + length($1) <= 100) print ".br" # else it was broken at the width of the help
      print escaped($0)
      before = $0
    }
  '
}
# What each page ends with.
see_also() { # NAMES…
  printf '.SH SEE ALSO\n'
  local name separator=''
  for name in "$@"; do
    printf '%s.BR %s (1)' "$separator" "${name//-/\\-}"
    separator=$' ,\n'
  done
  printf '\n'
}

mapfile -t commands < <("$kiln" help | sed -n '/^commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p')
[ "${#commands[@]}" -gt 0 ] || { echo "'$kiln help' lists no commands" >&2; exit 1; }
{ "$kiln" help | page kiln; see_also "${commands[@]/#/kiln-}"; } >"$directory/kiln.1"
for command in "${commands[@]}"; do
  { "$kiln" help "$command" | page "kiln-$command"; see_also kiln; } >"$directory/kiln-$command.1"
done
