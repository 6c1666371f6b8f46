// --weights of the commands that run a package: values for its weights from a file, in place of those that are in it.
#pragma once
#include <string>

#include "options.h"

namespace kiln::cli {

OptionSpec weights_option();
// The file of --weights, "" without; says what of it the package has no use for, and what it does not have.
std::string given_weights(const std::string& package, const ParsedOptions& options);

}  // namespace kiln::cli
