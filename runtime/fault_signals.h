// SIGSEGV, SIGBUS, SIGFPE and SIGILL inside a step: named before the process ends.
//
// A process has one handler per signal, so this is the one place of the runtime with state outside of objects: handlers
// are installed when a model is loaded with name_faults or a setting that watches runs, and stay; a thread says which
// step it is in by a pointer of its own. A signal outside of a marked step goes to whoever handled it before. After the
// report it goes there too, so that core dumps, sanitizers and an embedder's crash reporter see it as they always did.
//
// The handler itself only writes, waits and reads (all of it async-signal-safe), on a stack of its own, so that a step
// which used up its stack is named too. What allocates (which buffer the address is near to, the fault bundle) is done
// by a thread that waits for nothing else; where the faulting thread held a lock that it needs, the wait ends after a
// while and the process goes on to its end without a bundle.
#pragma once
#include <string_view>

namespace kiln::runtime {

class RunningStep {
 public:
  virtual ~RunningStep() = default;
  // "kernel cpp_fused_add_3 (step 4, run 1)…": written as it is by the handler, so it must be there already.
  virtual std::string_view text() const = 0;
  // Called on a thread of its own after the text is out, while the faulting thread waits. `address` is what was
  // touched.
  virtual void report(int signal, const void* address) const = 0;
};

// Also puts a handler back that was used up, when the embedder's own recovered from the fault, and starts the reporting
// thread again after a fork. Costs a load when all is there.
void install_fault_handlers();

// Marks the calling thread as being inside a step, and gives it a stack for the handler if it has none.
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
