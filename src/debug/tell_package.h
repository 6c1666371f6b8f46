// TORCH_LOGS and the debug directory for a package that exists: told from its debug section (in the package or in the
// sidecar beside it), as if it were being compiled now. The graph is the one it was compiled from; kernels are printed
// from the Loops it carries, so they are those that run. Nothing is compiled and the package is not changed.
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
