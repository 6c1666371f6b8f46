#pragma once
#include <string>

namespace kiln::codegen {

// What tiles need whose products are matrix instructions of four warps together (wgmma), for the widths that these
// kernels use.
std::string cuda_warpgroup_prelude(const std::string& kernels);

}  // namespace kiln::codegen
