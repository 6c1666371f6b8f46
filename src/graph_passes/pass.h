// What every graph pass is given. A pass is `bool name(Program&, PassContext&)` in a header of its own; it returns
// whether it changed anything. compile/pipeline.cpp lists the passes in order and says why.
#pragma once
#include <string>
#include <vector>

#include "graph/graph.h"

namespace kiln {

struct PassContext {
  std::vector<std::string>* log = nullptr;  // one line per decision worth reading; may be null
  void note(std::string line) {
    if (log) log->push_back(std::move(line));
  }
};

}  // namespace kiln
