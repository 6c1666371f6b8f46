// The program that a package was compiled from: its debug section has the graph, its weights the constants.
#pragma once
#include "graph/graph.h"

namespace kiln::minify {

// With the package's sample inputs. Throws K0681 when the debug section was stripped, or when a constant that the graph
// names is not in the package any more (folded into others): then only the model itself helps.
Program program_of_package(const std::string& path);

// What it was compiled for: "cpu", "cuda".
std::string device_of_package(const std::string& path);

// The settings that it was compiled with, "key=value" each, as far as they were not the defaults.
std::vector<std::string> settings_of_package(const std::string& path);

}  // namespace kiln::minify
