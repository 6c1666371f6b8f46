// Tensors as .pt files that torch.load(weights_only=True) reads: what the saver of values and fault bundles write. A
// tensor keeps its strides where they leave no gaps, else it is written row-major. The device is always the CPU, so
// that the file can be read where there is no other.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "kiln/dlpack.h"

namespace kiln::runtime {

struct SavedItem {
  const DLTensor* tensor = nullptr;  // nullptr: a number
  int64_t integer = 0;               // of a float its bits
  bool is_float = false;
};

std::string tensor_file(const DLTensor& tensor);             // one tensor; the bytes of the file
std::string list_file(const std::vector<SavedItem>& items);  // a flat list, as inputs are saved

}  // namespace kiln::runtime
