#!/usr/bin/env bash
# Installs a build into a folder of its own and builds the project of docs/embedding.md against it, outside of the tree.
#   tests/install_test.sh BUILD_DIR SOURCE_DIR
set -euo pipefail
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
for file in bin/kiln lib/libkiln_runtime.so lib/libkiln_debug.so lib/libkiln_tools.so include/kiln/kiln.h \
  include/kiln/kiln.hpp lib/cmake/Kiln/KilnConfig.cmake lib/pkgconfig/kiln.pc share/doc/kiln/LICENSE share/man/man1/kiln.1 share/man/man1/kiln-compile.1 \
  share/bash-completion/completions/kiln share/zsh/site-functions/_kiln share/fish/vendor_completions.d/kiln.fish; do
  [ -f "$work/prefix/$file" ] || { echo "$file is not installed"; exit 1; }
done

# Programs ask the loader for the SOVERSION; without the links for linkers everything still runs (below).
for library in runtime debug tools; do
  file=$work/prefix/lib/libkiln_$library.so
  name=$(objdump -p "$file" | sed -n 's/^ *SONAME *//p')
  [[ $name == libkiln_$library.so.[0-9]* && -e $work/prefix/lib/$name && -L $file ]] || { echo "$file has the SONAME '$name'"; exit 1; }
done

# The first block of a language in the document.
block() { awk -v fence="\`\`\`$1" '$0 == fence {on = 1; next} on && /^```/ {exit} on' "$source/docs/embedding.md"; }
mkdir "$work/project"
block cmake >"$work/project/CMakeLists.txt"
block cpp >"$work/project/main.cpp"
cd "$work/project"
cmake -S . -B build -D CMAKE_BUILD_TYPE=Release -D CMAKE_PREFIX_PATH="$work/prefix" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --build build >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$work/prefix/bin/kiln" compile "$source/tests/cases/mlp/model.pt2" -o model.kiln.pt2
./build/program | grep -E '^-?[0-9.]+$'
rm "$work"/prefix/lib/libkiln_*.so
./build/program >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
TORCH_LOGS=output_code ./build/program >"$work/log" 2>&1
grep -q 'cpp_fused' "$work/log" || { echo "the program finds no tools without the links for linkers"; cat "$work/log"; exit 1; }
# The installed command finds its companions, also from elsewhere and through a link.
ln -s "$work/prefix/bin/kiln" "$work/kiln"
TORCH_LOGS=output_code "$work/kiln" run model.kiln.pt2 --config check_bounds=1 >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
if grep -q 'was not found' "$work/log"; then cat "$work/log"; exit 1; fi
if command -v pkg-config >/dev/null; then
  PKG_CONFIG_PATH="$work/prefix/lib/pkgconfig" pkg-config --variable=includedir kiln >"$work/include"
  [ -f "$(cat "$work/include")/kiln/kiln.h" ] || { echo "kiln.pc points to $(cat "$work/include")"; exit 1; }
fi
