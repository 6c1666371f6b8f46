// TORCH_TRACE while compiling: records for `kiln report`. docs/report.md has the schema.
#pragma once
#include <memory>
#include <string>

#include "trace/compile_observer.h"

namespace kiln {

std::unique_ptr<CompileObserver> make_compile_trace(const std::string& directory);

}  // namespace kiln
