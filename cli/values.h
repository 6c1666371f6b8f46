// Outputs on the command line: files out, and values shown.
#pragma once
#include <string>
#include <vector>

#include "options.h"
#include "types/tensor.h"

namespace kiln::cli {

// Writes to -o, if given, and says so; always prints the values.
void deliver_outputs(const std::vector<Datum>& outputs, const ParsedOptions& options);

}  // namespace kiln::cli
