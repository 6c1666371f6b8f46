// Setting nan_asserts: before and after each kernel every floating-point argument is searched for NaN and infinities;
// the first one ends the run with K0637, which says where it came from.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "runtime/observer.h"

namespace kiln::runtime {

// `origins_of` gives the source lines of a step by its name (of the kernel that made a bad input), or "".
std::unique_ptr<StepObserver> make_nan_asserts(std::function<std::string(const char* step_name)> origins_of);

}  // namespace kiln::runtime
