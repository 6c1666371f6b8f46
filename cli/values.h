// Inputs and outputs on the command line: files in, files out, and values shown.
#pragma once
#include <string>
#include <vector>

#include "options.h"
#include "types/tensor.h"

namespace kiln::cli {

// The file of --inputs: .pt, .npy, .npz, .safetensors. Where its items have the names of the model's inputs they are
// put into the model's order; otherwise they are taken in the order of the file.
std::vector<Datum> read_inputs(const std::string& path, const std::vector<std::string>& input_names);
// That the file of -o, if given, can be one of tensors, and its folder is there: said before any work is done.
void check_output_option(const ParsedOptions& options);
// Writes to -o, if given, and says so; always prints the values. `keys`: their names in the program's result, "" for
// one without; where there are some, files hold the values under these names (one without goes by its number).
void deliver_outputs(const std::vector<Datum>& outputs, const std::vector<std::string>& keys,
                     const ParsedOptions& options);

}  // namespace kiln::cli
