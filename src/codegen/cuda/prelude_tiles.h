// What tiles of matrix instructions need in front of a kernel.
#pragma once
#include <string>

namespace kiln::codegen {

std::string cuda_tile_prelude();

}  // namespace kiln::codegen
