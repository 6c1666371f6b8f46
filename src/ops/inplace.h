// In-place variants (aten.add_.Tensor) made from the record of the functional operator (aten.add.Tensor).
#pragma once
#include "ops/op_record.h"

namespace kiln {

OpRecord make_inplace(const OpRecord& functional);

// Whether PyTorch lets a result of type `from` be written into a tensor of type `to`: never complex into real, float
// into integer, or a number into bool.
bool can_cast(DType from, DType to);

}  // namespace kiln
