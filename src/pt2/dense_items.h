// What .npy, .npz and .safetensors share: they hold dense row-major tensors under names.
#pragma once
#include "pt2/tensor_files.h"

namespace kiln {

// The item as a dense tensor; throws K0152 for what only .pt can hold.
Tensor dense_tensor(const Datum& item, const std::string& name, const char* format);
ByteSpan dense_bytes(const Tensor& tensor);
// A tensor over bytes of the file; their number must be exactly right (K0151).
Tensor tensor_over(DType dtype, std::vector<int64_t> sizes, ByteSpan bytes, const FileBytes& file,
                   std::string_view name);
// If the names are exactly prefix0, prefix1, … in any order, the file was a list: restores its order, and
// the names are numbered_names.
bool order_numbered(TensorFile& file, std::string_view prefix);

}  // namespace kiln
