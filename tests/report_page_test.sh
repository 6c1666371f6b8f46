#!/usr/bin/env bash
# The report in a real browser (Chromium without a window): every view draws without an error, and a model of 1,000
# kernels is on the screen in less than two seconds.
#   report_page_test.sh KILN SOURCE_DIR
set -euo pipefail
kiln=$1
source_dir=$2
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$browser" ]; then
  echo "no Chromium is installed: skipped"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME=$work

# dom HTML VIEW: the page after its script has run.
dom() {
  "$browser" --headless=new --no-sandbox --disable-gpu --user-data-dir="$work/profile" --enable-logging=stderr \
    --dump-dom "file://$1#$2" 2>"$work/log"
  if grep -E 'Uncaught|SyntaxError|ReferenceError|TypeError' "$work/log"; then
    echo "FAIL: the script failed in view '$2'" >&2
    exit 1
  fi
}
# has FILE TEXT WHAT
has() {
  grep -qF -- "$2" "$1" || { echo "FAIL: $3 lacks: $2"; exit 1; }
}

TORCH_TRACE=$work/trace "$kiln" compile "$source_dir/tests/cases/mlp/model.pt2" -o "$work/mlp.kiln.pt2" >/dev/null 2>&1
TORCH_TRACE=$work/trace "$kiln" run "$work/mlp.kiln.pt2" --repeat 5 --config nan_asserts=1 >/dev/null
"$kiln" report "$work/trace" -o "$work/report.html" >/dev/null
# The page follows the system: nobody has pressed `t`.
for theme in light:1 dark:0; do
  "$browser" --headless=new --no-sandbox --disable-gpu --user-data-dir="$work/profile" \
    --blink-settings=preferredColorScheme="${theme#*:}" --dump-dom "file://$work/report.html" 2>/dev/null |
    grep -q "data-theme=\"${theme%:*}\"" || { echo "FAIL: a ${theme%:*} system has no ${theme%:*} page"; exit 1; }
done
check() {  # VIEW TEXTS…: the drawn part of the view has the texts
  local view=$1
  shift
  dom "$work/report.html" "$view" | sed -n '/<main/,/<\/main>/p' >"$work/dom.html"
  for text in "$@"; do has "$work/dom.html" "$text" "view '$view'"; done
  # Numbers as people write them.
  if grep -oE '[0-9]e\+[0-9]+ |[^0-9.]0 µs|[^0-9.]1 (calls|steps|runs|lines|operators)\b' "$work/dom.html"; then
    echo "FAIL: a number in view '$view'"
    exit 1
  fi
}
check overview 'a run, all steps together' 'Slowest functions' 'FLOPs' 'compile time' 'Where the time went' 'fc1'
check timeline 'use_templates' 'C++ compiler'
dom "$work/report.html" timeline | sed -n "/<main/,/<\/main>/p" | grep -q inject_fault && { echo "FAIL: a pass that only tests is shown"; exit 1; }
check graph '<svg class="drawing"' 'class="node' 'Your lines' 'self.fc1(x)' 'Values it writes'
check graph/operators 'class="node operator"' 'linear'
check graph/read 'class="ln"' 'As exported' 'as a drawing'
check fusion 'each is a matrix product with a schedule of its own' 'refused'
check kernels 'Operators and your lines' 'self.fc1(x)' 'aten.linear.default'
check guards 's77' 'range of s77 in the export'
check memory '<svg class="mem"' 'bytes alive'
check runs 'by outer module' 'aria-sort="descending"' 'Kernels of a run' 'Numerics' 'cpp_mm_linear_0'

# A thousand kernels: those of this model under other names.
mkdir "$work/large"
python=$(command -v python3 || true)
if [ -n "$python" ]; then
  "$python" - "$work"/trace/*.jsonl "$work/large/large.jsonl" <<'PYTHON'
import json, sys
records = []
for path in sys.argv[1:-1]:
    with open(path) as file:
        records += [json.loads(line) for line in file]
with open(sys.argv[-1], "w") as out:
    kernels = [r for r in records if r["type"] == "kernel"]
    for record in records:
        if record["type"] == "compile_end":
            for i in range(1000):
                copy = dict(kernels[i % len(kernels)], init=False, step=100 + i)
                copy["name"] = copy["symbol"] = f"{copy['name']}_{i}"
                out.write(json.dumps(copy) + "\n")
        if record["type"] == "stage":
            record["text"] *= 300
        out.write(json.dumps(record) + "\n")
PYTHON
  "$kiln" report "$work/large" -o "$work/large.html" >/dev/null
  for view in overview kernels graph; do
    ready=$(dom "$work/large.html" "$view" | grep -oE 'data-ready-ms="[0-9]+"' | head -1 | grep -oE '[0-9]+')
    echo "1,000 kernels, view $view: ${ready} ms"
    # 2 s on a machine that does nothing else; tests share theirs.
    [ "$ready" -lt 8000 ] || { echo "FAIL: more than 8 s"; exit 1; }
  done
fi
echo "every view drawn"
