// Lists of the repository that tests compare with what they find: one entry a line, the first word is its name, the
// rest what the list says about it. Lines that begin with # are comments. For tests.
#pragma once
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "base/error.h"

namespace kiln {

inline std::map<std::string, std::string> read_test_list(const std::string& file) {
  const char* root = std::getenv("KILN_SOURCE_DIR");
  if (!root) fail_bug("set KILN_SOURCE_DIR to the repository (ctest does)");
  std::ifstream in(std::string(root) + "/tests/" + file);
  if (!in) fail_bug("cannot read tests/" + file);
  std::map<std::string, std::string> out;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string name, rest;
    words >> name >> std::ws;
    std::getline(words, rest);
    if (!out.emplace(name, rest).second) fail_bug("tests/" + file + " has " + name + " twice");
  }
  return out;
}

// Samples with symbolic sizes that a rule refuses: "aten.view.default/3" -> the code. Both record tests look here.
inline const std::map<std::string, std::string>& symbolic_refusals() {
  static const std::map<std::string, std::string> list = read_test_list("symbolic_refusals.txt");
  return list;
}

}  // namespace kiln
