// Outputs on the command line: files out, and values shown.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "json_output.h"
#include "options.h"
#include "types/tensor.h"

namespace kiln::cli {

// That the file of -o, if given, can be one of tensors: said before any work is done.
void check_output_option(const ParsedOptions& options);
// That the format of that file holds outputs of these kinds and element types (their sizes do not matter).
void check_output_fits(const std::vector<Datum>& stand_ins, const std::vector<std::string>& keys,
                       const ParsedOptions& options);
// Writes to -o, if given, and says so; prints the values, unless --quiet or --json says otherwise. `keys`: their names
// in the program's result, "" for one without; where there are some, files hold the values under these names (one
// without goes by its number).
void deliver_outputs(const std::vector<Datum>& outputs, const std::vector<std::string>& keys,
                     const ParsedOptions& options, const JsonOutput& json);

// The values for programs: each with its key, kind, and of a tensor dtype, sizes and all values, nested.
Json outputs_json(const std::vector<Datum>& outputs, const std::vector<std::string>& keys);

}  // namespace kiln::cli
