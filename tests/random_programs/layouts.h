// Layouts that a caller's tensor may have, whatever the program was exported with.
#pragma once
#include "../campaign/dice.h"
#include "types/tensor.h"

namespace kiln::random_programs {

using campaign::Dice;

// The same values laid out in another way: dimensions in another order, gaps between elements, an offset, a beginning
// that is not aligned. With `may_repeat` dimensions may also have stride 0, where the values must be equal: see
// repeated.
Tensor laid_out(const Tensor& values, uint64_t seed, bool may_repeat);

// Makes the values equal along the dimensions that laid_out gives stride 0 for this seed.
Tensor repeated(const Tensor& values, uint64_t seed);

}  // namespace kiln::random_programs
