// Setting check_bounds: generated kernels are not launched but executed by the loop interpreter, every load and store
// checked against its buffer. The interpreter is no part of the runtime: it comes from libkiln_debug.so
// (kiln/debug_library.h), which is opened here. What the machine code itself touches: runtime/checked_code.h.
#pragma once
#include <memory>

#include "runtime/observer.h"
#include "runtime/package_files.h"

namespace kiln::runtime {

// Throws K0639 saying what is missing: the library, or the package's debug section.
std::unique_ptr<StepObserver> make_checked_steps(const PackageFiles* files);

}  // namespace kiln::runtime
