// The GPU of this machine, asked of NVIDIA's driver where there is one.
#pragma once
#include <string>

namespace kiln {

std::string cuda_architecture();  // "sm_90" of the first GPU; empty: there is none

}  // namespace kiln
