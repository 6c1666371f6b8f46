// Outputs on the command line: files out, and values shown.
#pragma once
#include <string>
#include <vector>

#include "options.h"
#include "types/tensor.h"

namespace kiln::cli {

// That the file of -o, if given, can be one of tensors: said before any work is done.
void check_output_option(const ParsedOptions& options);
// That the format of that file holds outputs of these kinds and element types (their sizes do not matter).
void check_output_fits(const std::vector<Datum>& stand_ins, const std::vector<std::string>& keys,
                       const ParsedOptions& options);
// Writes to -o, if given, and says so; always prints the values. `keys`: their names in the program's result, "" for
// one without; where there are some, files hold the values under these names (one without goes by its number).
void deliver_outputs(const std::vector<Datum>& outputs, const std::vector<std::string>& keys,
                     const ParsedOptions& options);

}  // namespace kiln::cli
