// TORCH_LOGS while compiling: turns what happens into log lines (docs/logs.md shows each).
#pragma once
#include <memory>
#include <string>

#include "base/log_selection.h"
#include "trace/compile_observer.h"

namespace kiln {

// `file`: where the lines go (TORCH_LOGS_OUT); empty: standard error.
std::unique_ptr<CompileObserver> make_compile_logs(LogSelection selection, const std::string& file);

// What a package says of itself, for runs with TORCH_LOGS: guards, dynamic, output_code, kernel_code, schedule.
struct PackageLogInput {
  const format::Plan* plan = nullptr;
  const format::Origins* origins = nullptr;  // may be null
  std::vector<std::string> sources;          // generated code, where the debug section is there
  std::string loops;                         // scheduled Loops, likewise
  std::string label;
};
void log_package(const PackageLogInput& package, const LogSelection& selection, const std::string& file);

}  // namespace kiln
