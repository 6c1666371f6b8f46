#!/usr/bin/env bash
# Builds the wheel over a build of Kiln, installs it in a fresh environment and runs the tests of tests/python there.
#   wheel_test.sh SOURCE_DIR BUILD_DIR
# Skipped (exit 77) where Python's venv, headers, pip or the build requirements cannot be had. The environment stays in
# BUILD_DIR/python_test, so that a second run installs only the wheel. With KILN_TEST_PYTHON=/path/to/python that one is used.
set -uo pipefail
source_dir=$(cd "$1" && pwd)
build_dir=$(cd "$2" && pwd)
python=${KILN_TEST_PYTHON:-$(command -v python3 || true)}
# What the caller's environment has for Kiln, or looks as if, would be spoken of.
for variable in $(compgen -e KILN_ || true); do unset "$variable"; done
work=$build_dir/python_test
skip() {
  echo "skipped: $*"
  exit 77
}

[ -n "$python" ] || skip "there is no python3"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || skip "$python is older than 3.10"
"$python" -c 'import os, sysconfig, sys; sys.exit(not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))' ||
  skip "the headers of $python are not installed"
mkdir -p "$work"
if ! [ -x "$work/venv/bin/pip" ]; then
  rm -rf "$work/venv"
  "$python" -m venv "$work/venv" >"$work/venv.log" 2>&1 || skip "no virtual environment can be made: $(tail -n 1 "$work/venv.log")"
fi
pip() { "$work/venv/bin/pip" --disable-pip-version-check -q "$@"; }
"$work/venv/bin/python" -c 'import nanobind, scikit_build_core, numpy' 2>/dev/null ||
  timeout 120 "$work/venv/bin/pip" --disable-pip-version-check -q --retries 1 --timeout 15 install nanobind scikit-build-core numpy \
    >"$work/pip.log" 2>&1 || skip "the build requirements cannot be had: $(tail -n 1 "$work/pip.log")"

set -e
cd "$source_dir"
rm -rf "$work/wheel"
# What the build requires is there: no index is asked, neither to build nor to install.
KILN_PREBUILT=$build_dir pip wheel . --no-deps --no-index --no-build-isolation -w "$work/wheel" -C build-dir="$work/build"
size=$(stat -c %s "$work"/wheel/kiln-*.whl)
echo "the wheel has $size bytes"
[ "$size" -le 15000000 ] || { echo "more than 15 MB"; exit 1; }
pip install --force-reinstall --no-deps --no-index "$work"/wheel/kiln-*.whl
cd "$work"
PATH=$work/venv/bin:$PATH kiln --help | grep -q '^usage: kiln COMMAND'
# A program in C++ against what the wheel holds, as python -c 'import kiln' finds it.
package=$("$work/venv/bin/python" -c 'import kiln, os; print(os.path.dirname(kiln.__file__))')
if command -v c++ >/dev/null; then
  awk '$0 == "```cpp" {on = 1; next} on && /^```/ {exit} on' "$source_dir/docs/embedding.md" >program.cpp
  c++ -std=c++17 program.cpp -I "$package/include" -L "$package/lib" -lkiln_runtime -Wl,-rpath,"$package/lib" -o program
  "$work/venv/bin/kiln" compile "$source_dir/tests/cases/mlp/model.pt2" -o model.kiln.pt2 >/dev/null 2>&1
  ./program | grep -qE '^-?[0-9.]+$'
fi
[ "$("$work/venv/bin/kiln" --version | head -n 1)" = "kiln $("$work/venv/bin/python" -c 'import kiln; print(kiln.__version__)')" ]
PYTHONPATH=$source_dir/tests/python "$work/venv/bin/python" -m unittest discover -s "$source_dir/tests/python" 2>&1 | tee "$work/log"
grep -q '^OK' "$work/log"
