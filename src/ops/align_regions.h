// roi_align with a known number of points in each bin, in Loops (of boxes.cpp).
#pragma once
#include "ops/lower_call.h"

namespace kiln {

inline constexpr int64_t most_region_points = 4;  // along each side of a bin: they are written out

void lower_aligned_regions(LowerCall& call);

}  // namespace kiln
