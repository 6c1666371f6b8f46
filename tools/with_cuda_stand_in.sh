#!/usr/bin/env bash
# Runs a command with stand-ins for NVRTC and NVIDIA's driver (tests/cuda_stand_in): packages for cuda are compiled to
# code of the host, and their kernels run by emulation.
#   tools/with_cuda_stand_in.sh build/release/bin/kiln check tests/cases --device cuda
set -euo pipefail
build=${KILN_BINARY_DIR:-$(dirname "$0")/../build/release}
export KILN_NVRTC=$build/lib/stand_in/libnvrtc.so LD_LIBRARY_PATH=$build/lib/stand_in${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec "$@"
