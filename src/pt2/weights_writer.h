// Parameters, buffers and constants of a program, written as raw storages with a config that lists them; the inverse
// of weights.h.
#pragma once
#include <set>
#include <string>

#include "base/zip.h"
#include "graph/graph.h"
#include "pt2/sympy_writer.h"

namespace kiln {

// `folder` ("data/weights/") gets the storages, each as `prefix` and a number, and the text of the config is returned.
// Written are the program's constants with these names; names that share a storage share its entry.
struct WeightFolder {
  std::string folder, prefix;
  std::set<std::string> names;
  std::set<std::string> parameters;
};
std::string write_weights(const Program& program, const WeightFolder& what, const SympyWriter& sympy, ZipWriter& zip);

}  // namespace kiln
