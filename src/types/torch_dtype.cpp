#include "types/torch_dtype.h"

#include "base/text.h"

namespace kiln {

namespace {

int scalar_type_of(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return 0;
    case DType::i8:
      return 1;
    case DType::i16:
      return 2;
    case DType::i32:
      return 3;
    case DType::i64:
      return 4;
    case DType::f16:
      return 5;
    case DType::f32:
      return 6;
    case DType::f64:
      return 7;
    case DType::c32:
      return 8;
    case DType::c64:
      return 9;
    case DType::c128:
      return 10;
    case DType::boolean:
      return 11;
    case DType::bf16:
      return 15;
    case DType::f8e5m2:
      return 23;
    case DType::f8e4m3fn:
      return 24;
    case DType::f8e5m2fnuz:
      return 25;
    case DType::f8e4m3fnuz:
      return 26;
    case DType::u16:
      return 27;
    case DType::u32:
      return 28;
    case DType::u64:
      return 29;
  }
  return -1;
}

}  // namespace

std::string numbered_dtype(DType dtype) { return str(scalar_type_of(dtype), "(", dtype_torch_name(dtype), ")"); }

}  // namespace kiln
