// Values that differ from the expected ones because rounding decided them, or was magnified: the sign of a vector that
// a matrix has two of, an index among nearly equal numbers, a sum of 1e23 and -1e23. The fp64 reference is asked again,
// with everything that it computes off by as much as the program's own types round it (rounding_noise.h).
//
// A value is explained that is what one of these samples has, or no further from the reference than four times as far
// as the furthest of them; integers are only by the first. So is, then, what was expected: a reference that computes
// something else than what the result is compared with explains nothing. And all of a tensor's values together may be
// no more than twice as far from the reference as the furthest samples of each.
#pragma once
#include <vector>

#include "check/compare.h"

namespace kiln {

// `elements`: those out of tolerance, by their number in row-major order. All of them, or the tensor is wrong.
bool explained_by_rounding(const std::vector<int64_t>& elements, const Tensor& got, const Tensor& expected,
                           const Tolerance& tolerance, const Fp64Lookup& lookup);
bool explained_by_rounding(const Scalar& got, const Scalar& expected, const Tolerance& tolerance,
                           const Fp64Lookup& lookup);

}  // namespace kiln
