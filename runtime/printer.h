// The debug printer: modes 2 and 3 of aot_inductor.debug_intermediate_value_printer. Mode 3 prints each kernel's name
// before its launch; mode 2 prints, before and after each launch, what every argument holds.
//
// A record is one call of the log, written out before the launch: the last one survives a crash, and records of
// concurrent runs do not mix (each has its run's number).
#pragma once
#include <memory>

#include "runtime/kernel_filter.h"
#include "runtime/log.h"
#include "runtime/observer.h"

namespace kiln::runtime {

std::unique_ptr<StepObserver> make_printer(bool names_only, KernelFilter filter, const Log& log);

}  // namespace kiln::runtime
