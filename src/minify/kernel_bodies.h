// What the generated kernels of two programs have in common, for the note that says what a repro proves.
#pragma once
#include <string>
#include <vector>

#include "base/settings.h"
#include "graph/graph.h"

namespace kiln::minify {

// One line per kernel: a hash of its body (names of kernels are no part of it) and its name.
std::string kernel_bodies(const Program& program, const Settings& settings,
                          const std::vector<std::string>& custom_op_libs, const std::string& device = "");

// Of two such texts: which kernels of the part are those of the whole program.
std::string same_kernels_note(const std::string& part, const std::string& whole);

}  // namespace kiln::minify
