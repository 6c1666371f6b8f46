// What there is to say about each step of a compiled program: source, loops, origins, schedule, hints. The logs and the
// trace are made of it.
#pragma once
#include <string>
#include <vector>

#include "trace/compile_observer.h"

namespace kiln {

struct KernelFacts {
  std::string name;
  int step = 0;        // number in the plan
  bool init = false;   // runs when weights are loaded
  int depth = 0;       // blocks around it
  std::string kind;    // kernel, library, custom, copy, cond, while, assert, bind
  std::string call;    // with its buffers
  std::string symbol;  // function that it calls; another kernel's name where the bodies are equal
  std::string source;  // C++ of that function
  std::string loops;   // scheduled
  std::string schedule;
  const loops::Kernel* kernel = nullptr;  // of a generated one; lives as long as the event's loops
  struct From {
    std::string node, op, module, line;
  };
  std::vector<From> origins;
  std::vector<std::string> hints;
  std::vector<std::string> reads, writes;  // buffers
};

// In step order, the steps of the init section first.
std::vector<KernelFacts> kernel_facts(const CodeEvent& event);

}  // namespace kiln
