// TORCH_LOGS while compiling: turns what happens into log lines (docs/logs.md shows each).
#pragma once
#include <memory>
#include <string>

#include "base/log_selection.h"
#include "trace/compile_observer.h"

namespace kiln {

// `file`: where the lines go (TORCH_LOGS_OUT); empty: standard error.
std::unique_ptr<CompileObserver> make_compile_logs(LogSelection selection, const std::string& file);

}  // namespace kiln
