// Of bind_threads: reductions over small windows.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

// Writes out what an item's reductions over windows of a fixed, small size do, term by term (a pooling's nine), so that
// its body has no loops and neighbouring items can be taken together. Whether it did; else nothing has changed.
bool unroll_windows(Kernel& kernel, Body& item);

}  // namespace kiln::loops
