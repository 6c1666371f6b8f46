// The files that a command writes: one rule for all of them, kept before any work is done.
#pragma once
#include <string>
#include <vector>

#include "options.h"

namespace kiln::cli {

// That `path` can be written: its folder is there and it is no folder itself (K0191), and it is none of the files that
// the command reads, by whatever name or link (K0193).
void check_output_file(const std::string& path, const ParsedOptions& options);

// The same for every option of the command that names a file to write; no two of them may be one file.
void check_output_options(const CommandSpec& command, const ParsedOptions& options);

}  // namespace kiln::cli
