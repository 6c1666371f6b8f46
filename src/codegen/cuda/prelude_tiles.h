// What tiles of matrix instructions need in front of a kernel.
#pragma once
#include <string>

namespace kiln::codegen {

std::string cuda_tile_prelude();
const char* cuda_cluster_prelude();  // uses it: of kernels whose blocks have tiles together

}  // namespace kiln::codegen
