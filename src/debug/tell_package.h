// TORCH_LOGS, the debug directory and TORCH_TRACE for a package that exists: what its debug section (in the package or
// in the sidecar beside it) recorded when it was compiled is told again, with the settings it was compiled with.
// Nothing is computed anew, so nothing can differ from what happened; what was not recorded is said to be missing.
#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "base/settings.h"

namespace kiln {

// Gives notes for the user: where something was written, or what could not be. Does nothing where nothing is asked for.
std::vector<std::string> tell_of_package(const std::string& path, const Settings& settings);

// Adds a failed run to the trace, where there is one.
void trace_error(const Error& error, const Settings& settings);

}  // namespace kiln
