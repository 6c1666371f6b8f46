// Buffers that several steps write, element by element: which of them a step has changed.
#pragma once
#include <vector>

#include "types/tensor.h"

namespace kiln {

// What bisecting fills memory with that a step is to write anew.
inline constexpr unsigned char poison_byte = 0xff;

// Whether the element with this number, in row-major order, has the same bits. Tensors of other sizes have not.
bool same_bits(const Tensor& a, const Tensor& b, int64_t linear);

// `expected`, but for the elements of `value` that are what they were before (`was`; nullptr: poison), or what one of
// the others has there: those are taken from `value`.
Tensor with_unchanged(const Tensor& expected, const Tensor& value, const Tensor* was,
                      const std::vector<Tensor>& others);

}  // namespace kiln
