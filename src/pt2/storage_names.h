// PyTorch's classes of storages: they say a tensor's element type in a .pt file.
#pragma once
#include <optional>
#include <string_view>

#include "types/dtype.h"

namespace kiln {

struct StorageName {
  std::string_view module, name;
  std::optional<DType> dtype;  // nothing: bytes, the tensor says its type itself
};

const StorageName* find_storage_name(std::string_view full_name);  // nullptr: unknown
const StorageName* storage_name_of(DType dtype);                   // nullptr: only untyped storages hold it
const StorageName& untyped_storage_name();

}  // namespace kiln
