// A program's kernels as one C++ file with the values they run on and a main: the repro of a failure inside a kernel,
// for people who work on the generated code. It needs a C++ compiler and nothing else.
#pragma once
#include <string>
#include <vector>

#include "base/settings.h"
#include "graph/graph.h"

namespace kiln::minify {

struct KernelFile {
  std::string text;     // the whole file
  std::string command;  // builds and runs it, in its directory
};

// The program must consist of generated kernels only; throws K0682 naming what else it needs (library calls, branches).
// Values larger than a few hundred kB are repeated from their first bytes; the file says so.
KernelFile kernel_file(const Program& program, const Settings& settings, const std::string& file_name);

}  // namespace kiln::minify
