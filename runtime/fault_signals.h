// SIGSEGV, SIGBUS, SIGFPE and SIGILL inside a step: named before the process ends.
//
// A process has one handler per signal, so this is the one place of the runtime with state outside of objects: handlers
// are installed when the first model is loaded with a setting that watches runs, and stay; a thread says which step it
// is in by a pointer of its own. A signal outside of a marked step goes to whoever handled it before. After the report
// it goes there too, so that core dumps, sanitizers and an embedder's crash reporter see it as they always did.
#pragma once
#include <string>

namespace kiln::runtime {

class RunningStep {
 public:
  virtual ~RunningStep() = default;
  std::string text;  // "kernel cpp_fused_add_3 (step 4, run 1)…": written as it is by the handler
  // Called after the text is out; may allocate, because kernels do not hold the allocator's locks. `address` is what
  // was touched.
  virtual void report(int signal, const void* address) const = 0;
};

void install_fault_handlers();

// Marks the calling thread as being inside a step.
class StepMark {
 public:
  explicit StepMark(const RunningStep* step);
  ~StepMark();
  StepMark(const StepMark&) = delete;

 private:
  const RunningStep* before_;
};

const char* signal_name(int signal);

}  // namespace kiln::runtime
