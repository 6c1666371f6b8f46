// The inputs of a package on the command line: --inputs, or the samples it carries.
#pragma once
#include "options.h"
#include "types/tensor.h"

namespace kiln::cli {

std::vector<Datum> package_inputs(const std::string& package, const ParsedOptions& options);

}  // namespace kiln::cli
