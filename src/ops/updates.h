// Operators that give a changed copy of a tensor (functional forms of writes): the copy, then a store to a part of it.
// Where the base dies, a loop pass drops the copy and stores in place.
#pragma once
#include "ops/lower_call.h"

namespace kiln {

// The type of a changed copy: self's, with the strides of clone() (preserve) or row-major.
TensorType changed_type(const InferCall& call, const Value* self, bool row_major);
// Kernel 1: result = self.
void lower_base_copy(LowerCall& call, std::string_view self = "self");
// What references write into.
Tensor changed_copy(const Tensor& self, bool row_major);

}  // namespace kiln
