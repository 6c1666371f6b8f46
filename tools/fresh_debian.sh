#!/usr/bin/env bash
# Proves the README: makes a fresh Debian 12 with nothing but git in it, clones this repository there and runs the two
# commands. Needs root and debootstrap; takes about 2 GB under the directory given (default: a temporary one).
#
#   tools/fresh_debian.sh [DIRECTORY]
#
# What is committed is tested: a clone has no uncommitted changes.
set -euo pipefail
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
for need in debootstrap unshare chroot git; do
  command -v "$need" >/dev/null || PATH=$PATH:/usr/sbin:/sbin command -v "$need" >/dev/null ||
    { echo "$need is needed" >&2; exit 1; }
done
[ "$(id -u)" -eq 0 ] || { echo "run as root: it makes a chroot" >&2; exit 1; }
export PATH=$PATH:/usr/sbin:/sbin

root=${1:-$(mktemp -d -t fresh_debian.XXXXXX)}
if [ ! -e "$root/usr/bin/git" ]; then
  debootstrap --variant=minbase --include=git,ca-certificates bookworm "$root"
fi
rm -rf "$root/src/kiln"
mkdir -p "$root/src"
git clone --quiet --no-hardlinks "$repository" "$root/src/kiln"

# Mounts live in a namespace of their own and vanish with it.
export root
unshare --mount --pid --fork bash -euo pipefail -c '
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs tmpfs "$root/tmp"
  chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 bash -euo pipefail -c "
    cd /src/kiln
    time tools/demo.sh
    time tools/test.sh
  "
'
echo "both commands work on a fresh Debian; it is in $root"
