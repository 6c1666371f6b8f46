// TORCH_TRACE while compiling: records for `kiln report`. docs/report.md has the schema.
#pragma once
#include <memory>
#include <string>

#include "base/json.h"
#include "trace/compile_observer.h"

namespace kiln {

std::unique_ptr<CompileObserver> make_compile_trace(const std::string& directory);

// A record of type "error".
Json error_record(const Error& error);

}  // namespace kiln
