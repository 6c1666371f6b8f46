// Values for people: dtype, sizes and the first values, formatted as PyTorch's repr does, shortened in the middle.
#pragma once
#include <string>

#include "types/tensor.h"

namespace kiln::cli {

// "float32[2, 3]"
std::string type_text(const Tensor& tensor);
// Nested brackets; continuation lines are indented by `indent` spaces.
std::string values_text(const Tensor& tensor, size_t indent = 0);
// One output or input: "float32[2, 3]  [[…]]", "3", "None".
std::string datum_text(const Datum& datum, size_t indent = 0);

}  // namespace kiln::cli
