#!/usr/bin/env bash
# Proves the Debian package: makes one of a build, installs it in a fresh Debian 12 that has no sources of Kiln, and there
# builds the project of docs/embedding.md against it with find_package(Kiln), compiles a model and runs the program; then
# once more in a root without a compiler, where the package and the program alone must run.
# Needs root and debootstrap; takes about 1 GB under the directory given (default: a temporary one).
#
#   tools/fresh_debian_package.sh [BUILD_DIR [DIRECTORY]]
set -euo pipefail
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(realpath "${1:-$repository/build/release}")
export PATH=$PATH:/usr/sbin:/sbin
for need in debootstrap unshare chroot cpack; do
  command -v "$need" >/dev/null || { echo "$need is needed" >&2; exit 1; }
done
[ "$(id -u)" -eq 0 ] || { echo "run as root: it makes a chroot" >&2; exit 1; }
work=${2:-$(mktemp -d -t fresh_debian.XXXXXX)}
mkdir -p "$work"

rm -rf "$work/package"
(cd "$build" && cpack -G DEB -B "$work/package" >"$work/cpack.log" 2>&1) || { tail "$work/cpack.log"; exit 1; }
package=$(ls "$work"/package/*.deb)
echo "$(basename "$package"): $(stat -c %s "$package") bytes"

if [ ! -e "$work/bare/etc/debian_version" ]; then
  debootstrap --variant=minbase bookworm "$work/bare" >"$work/debootstrap.log" 2>&1 || { tail "$work/debootstrap.log"; exit 1; }
fi
[ -e "$work/developer/etc/debian_version" ] || cp -a "$work/bare" "$work/developer"

# inside ROOT SCRIPT: mounts live in a namespace of their own and vanish with it.
inside() {
  root=$1 script=$2 unshare --mount --pid --fork bash -euo pipefail -c '
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
      bash -euo pipefail -c "$script"'
}
block() { awk -v fence="\`\`\`$1" '$0 == fence {on = 1; next} on && /^```/ {exit} on' "$repository/docs/embedding.md"; }
project=$work/developer/project
rm -rf "$project" "$work/bare/project"
mkdir -p "$project" "$work/bare/project"
cp "$package" "$project/kiln.deb"
cp "$package" "$work/bare/project/kiln.deb"
cp "$repository/tests/cases/mlp/model.pt2" "$project/"
block cmake >"$project/CMakeLists.txt"
block cpp >"$project/main.cpp"

echo "== a developer's machine: the package, cmake and a C++ compiler"
inside "$work/developer" '
  cd /project
  apt-get update -qq
  apt-get install -qq --no-install-recommends ./kiln.deb cmake g++ make pkg-config >/project/apt.log 2>&1 || { tail apt.log; exit 1; }
  kiln --version | head -n 1
  cmake -S . -B build -D CMAKE_BUILD_TYPE=Release >cmake.log 2>&1 || { cat cmake.log; exit 1; }
  cmake --build build >cmake.log 2>&1 || { cat cmake.log; exit 1; }
  kiln compile model.pt2 -o model.kiln.pt2
  ./build/program
  ldd build/program | grep kiln
  c++ -std=c++17 main.cpp $(pkg-config --cflags --libs kiln) -o with_pkg_config && ./with_pkg_config >/dev/null
  kiln run model.kiln.pt2 --config check_bounds=1 >/dev/null
  ls /usr/share/man/man1/kiln-compile.1 /usr/share/bash-completion/completions/kiln /usr/share/zsh/vendor-completions/_kiln /usr/share/doc/kiln/LICENSE
'
echo "== a machine that only runs: no compiler"
cp "$project/model.kiln.pt2" "$project/build/program" "$work/bare/project/"
inside "$work/bare" '
  cd /project
  apt-get update -qq
  apt-get install -qq --no-install-recommends ./kiln.deb >apt.log 2>&1 || { tail apt.log; exit 1; }
  if command -v c++; then echo "there is a compiler"; exit 1; fi
  ./program
  kiln run model.kiln.pt2 | head -n 1
'
echo "the package works on a fresh Debian; it is $package"
