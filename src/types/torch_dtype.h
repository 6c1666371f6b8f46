// A dtype as PyTorch's checks print it: "6(float32)", with the number of its c10::ScalarType.
#pragma once
#include <string>

#include "types/dtype.h"

namespace kiln {

std::string numbered_dtype(DType dtype);

}  // namespace kiln
