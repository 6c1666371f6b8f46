// The user's source files as a package names them: below the Python package or the project they belong to. Whole paths
// tell of users and machines, and mean nothing where a package is used.
#pragma once
#include <string>
#include <vector>

#include "graph/graph.h"

namespace kiln {

// "/x/env/lib/python3.12/site-packages/timm/layers/mlp.py" -> "site-packages/timm/layers/mlp.py"; below one of the
// bases: the rest; below Python's own library: "python3.12/…"; anything else: the last folder and the file.
std::string short_source_path(const std::string& path, const std::vector<std::string>& bases);

// In all nodes, of subgraphs too. The bases are the current directory and the model's.
void shorten_source_paths(Program& program, const std::string& model_directory);

}  // namespace kiln
