// Several steps may write one buffer, each its part: a concatenation in place. Until the last has done so the others'
// parts hold whatever was in memory, and who looks at the whole buffer after a step (NaN checks, printed statistics,
// saved values) would take that for something computed. So before the first of them all of it is set to 0.
#pragma once
#include <memory>

#include "package/format.h"
#include "runtime/observer.h"

namespace kiln::runtime {

// nullptr: the plan has no such buffer.
std::unique_ptr<StepObserver> make_part_cleaner(const format::Plan& plan);

}  // namespace kiln::runtime
