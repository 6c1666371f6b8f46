// TORCH_TRACE while running: the time of every step and, where values are looked at anyway (the printer's mode 2, NaN
// checks), what the steps of the first run wrote. The records go to the trace directory when the model is released:
// `kiln report` shows them beside the compile (docs/report.md).
#pragma once
#include <memory>
#include <string>

#include "runtime/observer.h"
#include "runtime/program.h"

namespace kiln::runtime {

std::unique_ptr<StepObserver> make_run_trace(const std::string& directory, bool numerics, const Program& program);

}  // namespace kiln::runtime
