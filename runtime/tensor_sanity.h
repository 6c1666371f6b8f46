// A caller's tensor, before anything is read from it.
#pragma once
#include <cstdint>

#include "kiln/dlpack.h"

namespace kiln::runtime {

// What is wrong with the tensor itself, whatever it is for: sizes that are missing or negative, elements outside the
// address space, no data. nullptr: nothing. `item`: bytes of an element.
const char* tensor_fault(const DLTensor& tensor, int64_t item);

}  // namespace kiln::runtime
