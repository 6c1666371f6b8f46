// --threads of the commands that measure: how many threads one call may use.
#pragma once
#include "base/settings.h"
#include "options.h"

namespace kiln::cli {

OptionSpec threads_option();
// "key=value" of --config, with what --threads says; a UsageError where the two contradict each other.
std::vector<std::string> run_settings(const ParsedOptions& options, const Settings& settings);

}  // namespace kiln::cli
