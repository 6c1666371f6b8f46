// Floating-point operations of one launch of a kernel, counted from its loops: each arithmetic statement on floats
// counts 1 per iteration of the loops around it (a reduction's update 1 more), whatever it costs the machine.
#pragma once
#include "loops/loops.h"

namespace kiln {

double count_flops(const loops::Kernel& kernel, const SymbolValues& symbols);

}  // namespace kiln
