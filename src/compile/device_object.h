// The code object of a GPU's target (package/device_code.h), of what NVRTC made and what a launch of each kernel takes.
#pragma once
#include <string>

#include "codegen/backend.h"
#include "toolchain/nvrtc.h"

namespace kiln {

std::string device_object(const codegen::GeneratedCode& generated, const CudaImages& images);

}  // namespace kiln
