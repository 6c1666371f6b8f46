#!/usr/bin/env bash
# warpgroups_test.sh KILN SOURCE_DIR: products by matrix instructions of four warps (wgmma) in the emulation: the form that PTX for
# newer GPUs has, where each warp multiplies by itself, gives the same; and what is taken out of their waiting shows.
set -uo pipefail
kiln=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=${KILN_BINARY_DIR:-$(dirname "$kiln")/..}
for variable in $(compgen -e KILN_); do unset "$variable"; done
failed=0

# name  what is replaced in the kernels' text  by what  what the check must say
try() {
  local name=$1 from=$2 to=$3 says=$4
  # The compiler of the stand-in, which sees another text: the one that ends in kernels.cpp.
  cat > "$work/$name" <<END
#!/usr/bin/env bash
for word; do [[ \$word == *kernels.cpp ]] && { grep -qF '$from' "\$word" && touch '$work/$name.seen'; sed -i 's/$from/$to/' "\$word"; }; done
exec g++ "\$@"
END
  chmod +x "$work/$name"
  KILN_CXX=$work/$name KILN_CACHE_DIR=$work/cache_$name KILN_BINARY_DIR=$build "$source/tools/with_cuda_stand_in.sh" "$kiln" check \
    "$source/tests/cases/large_products_bf16" --device cuda > "$work/out" 2>&1
  [ -f "$work/$name.seen" ] || { echo "$name: '$from' is not in the text"; failed=1; }
  grep -q "$says" "$work/out" || { echo "$name: no '$says' in: $(tail -3 "$work/out")"; failed=1; }
}
try portable 'define GPU_WARPGROUPS' 'define GPU_NO_WARPGROUPS' '1 passed, 0 failed'
try products_not_waited_for 'gpu_wgmma_wait<1>();' '' '0 passed, 1 failed'
try copies_not_waited_for 'gpu_copy_wait<stages - 3>();' '' '0 passed, 1 failed'
try another_exchange 'chunks >= 8 ? line & 7' 'chunks >= 8 ? line \& 3' '0 passed, 1 failed'
[ "$failed" -eq 0 ] && echo "4 passed"
exit $failed
