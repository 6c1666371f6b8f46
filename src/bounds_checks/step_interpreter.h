// Steps of a shipped package, executed by the loop interpreter instead of their machine code: the checked run
// (check_bounds) and the search for the first operator that goes wrong (debug/bisect.h).
//
// It needs the text of the package's loops (debug/loops.txt) and, per step, what a hook of kiln.h sees: buffers by
// name, values of symbols, the seed. Every load and store is checked against the buffer's sizes (K0330). Steps may be
// run from several threads at once.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <string_view>

#include "kiln/kiln.h"
#include "loops/kernel_code.h"
#include "loops/loops.h"

namespace kiln {

class StepInterpreter {
 public:
  explicit StepInterpreter(std::string_view loops_text);
  const loops::LoopProgram& program() const { return program_; }
  const loops::Kernel* kernel(std::string_view name) const;  // nullptr: no generated kernel has this name
  // Writes what the step writes. False: it is no generated kernel.
  bool run(const kiln_step& step);

 private:
  const loops::KernelCode& code_of(const loops::Kernel& kernel);

  loops::LoopProgram program_;
  std::map<std::string, const loops::Kernel*, std::less<>> kernels_;
  // Made when it is first run, without a lock, which a child process would find locked that was forked meanwhile: where
  // several make it at once, one is kept.
  struct Code {
    std::atomic<const loops::KernelCode*> code{nullptr};
    Code() = default;
    Code(const Code&) = delete;
    ~Code() { delete code.load(); }
  };
  std::map<const loops::Kernel*, Code> codes_;  // of all kernels from the beginning
};

}  // namespace kiln
