// What a package remembers of how it was compiled (debug/passes.json): the passes, what they decided and why. Logs and
// traces of a package that exists are read from it: another Kiln, or other settings, might decide differently today.
#pragma once
#include <string>
#include <vector>

#include "loop_passes/decisions.h"

namespace kiln {

struct RecordedPass {
  std::string name, stage;  // stage: graph, lower, loops, schedule
  bool changed = false;
  std::vector<std::string> notes;  // of graph passes
  std::vector<loops::Decision> decisions;
};

std::string pass_record(const std::vector<RecordedPass>& passes);
std::vector<RecordedPass> read_pass_record(const std::string& text);  // throws K012x

}  // namespace kiln
