// The three makers behind make_executable, one file each.
#pragma once
#include "executable/executable.h"

namespace kiln {

std::unique_ptr<Executable> make_compiled_executable(const Program& program, const ExecutableOptions& options);
std::unique_ptr<Executable> make_loops_executable(const Program& program, const ExecutableOptions& options);
std::unique_ptr<Executable> make_interpret_executable(const Program& program, const ExecutableOptions& options);

}  // namespace kiln
