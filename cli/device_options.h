// --device and --target, of every command that has them: names that nobody knows are errors of the command line.
#pragma once
#include <string>
#include <vector>

#include "options.h"

namespace kiln::cli {

std::string device_asked_for(const ParsedOptions& options);  // "": where the model was exported
// None: this machine's best. Whether the model's own device has them is known when it has been read.
std::vector<std::string> targets_asked_for(const ParsedOptions& options);

}  // namespace kiln::cli
