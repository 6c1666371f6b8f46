// The one place where a compile can be made to go wrong on purpose. For tests of the debug tools only: nothing but
// tests fills it in, and no setting reaches it. (The settings `…_TESTING_ONLY`, with which users try the tools, name a
// fault of one operator and are an ordinary pass: loop_passes/inject_fault.h.)
//
// Each function sees one stage after all passes and checks of that stage, so what it does is what a mistake of the
// stage's author would have done:
//   lowered    a wrong lowering of one operator: everything after it has the mistake
//   loops      a wrong pass: generated code, plan and debug section all have the mistake
//   source     a wrong printer or C++ compiler: the debug section's loops are right
//   code       a wrong assembler or a damaged file: loops and generated source are right
//   plan       a wrong plan: the kernels are right, and run at the wrong time, on the wrong memory, with wrong sizes
//   constants  a wrong archive: weights that are not those the program was compiled for
#pragma once
#include <functional>
#include <map>
#include <string>

#include "loops/loops.h"
#include "package/format.h"

namespace kiln {

struct FaultInjector {
  std::function<void(loops::LoopProgram&)> lowered;
  std::function<void(loops::LoopProgram&)> loops;
  std::function<void(std::string& unit)> source;  // called for every translation unit
  std::function<void(std::string& shared_object)> code;
  std::function<void(format::Plan&)> plan;
  std::function<void(std::map<std::string, Tensor>&)> constants;  // by fully qualified name, as they are stored
};

}  // namespace kiln
