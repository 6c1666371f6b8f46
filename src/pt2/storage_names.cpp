#include "pt2/storage_names.h"

#include <array>

#include "base/error.h"

namespace kiln {
namespace {

constexpr std::array<StorageName, 13> names = {{
    {"torch.storage", "UntypedStorage", std::nullopt},
    {"torch", "FloatStorage", DType::f32},
    {"torch", "DoubleStorage", DType::f64},
    {"torch", "HalfStorage", DType::f16},
    {"torch", "BFloat16Storage", DType::bf16},
    {"torch", "LongStorage", DType::i64},
    {"torch", "IntStorage", DType::i32},
    {"torch", "ShortStorage", DType::i16},
    {"torch", "CharStorage", DType::i8},
    {"torch", "ByteStorage", DType::u8},
    {"torch", "BoolStorage", DType::boolean},
    {"torch", "ComplexFloatStorage", DType::c64},
    {"torch", "ComplexDoubleStorage", DType::c128},
}};

}  // namespace

const StorageName* find_storage_name(std::string_view full_name) {
  for (const StorageName& row : names)
    if (full_name == str(row.module, ".", row.name)) return &row;
  return nullptr;
}

const StorageName* storage_name_of(DType dtype) {
  for (const StorageName& row : names)
    if (row.dtype == dtype) return &row;
  return nullptr;
}

const StorageName& untyped_storage_name() { return names[0]; }

}  // namespace kiln
