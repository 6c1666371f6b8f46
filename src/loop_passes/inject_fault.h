// Faults put into a program on purpose, to try the debugging tools on: the setting `cpp.inject_relu_bug_TESTING_ONLY`
// (compile_error, runtime_error, accuracy: of relu) and, for tests of Kiln itself, `inject_fault_TESTING_ONLY`.
//
//   KIND:OPERATOR[:CONDITION]      KIND:OPERATOR+OPERATOR      the second: only in a kernel that fuses both
//
//   KIND        internal_error  Kiln's own passes refuse the operator      (shows while compiling)
//               compile_error   the generated code says `compile error!`   (the C++ compiler refuses it)
//               runtime_error   the kernel raises an error
//               accuracy        results are too large by one
//               nan             results are NaN
//               crash, hang     the kernel writes to address 0, or never ends
//   CONDITION   above=N         only where the result has more than N elements
//               dynamic         only where the result has a dynamic size
//               subgraph        only inside a subgraph of cond, while_loop, …
//               sometimes       only in about half of the runs (crash and hang)
//               node=NAME       only in this node of the program: one wrong operator among many of its kind
//
// Faults of computing are put into the Loops, so all backends but the reference show them; those of the generated code
// (compile_error, crash, hang) are put in by the printer's caller.
#pragma once
#include "loop_passes/passes.h"

namespace kiln::loops {

enum class FaultKind : uint8_t { none, internal_error, compile_error, runtime_error, accuracy, nan, crash, hang };
enum class FaultCondition : uint8_t { always, above, dynamic, subgraph, sometimes, node };

struct FaultInjection {
  FaultKind kind = FaultKind::none;
  std::vector<std::string> ops;  // short names: {"relu"}; two: only where both are fused
  FaultCondition condition = FaultCondition::always;
  int64_t above = 0;
  std::string node;
  bool fused() const { return ops.size() > 1; }
};

// Throws K0142 for what is no such text.
FaultInjection parse_fault(std::string_view text);

// Whether the kernel gets the fault; `nested`: it stands in a subgraph's block.
bool fault_hits(const FaultInjection& fault, const LoopProgram& program, const Kernel& kernel, bool nested);
// The line of C++ that a hit kernel begins with; empty for the kinds that are put into the Loops.
std::string fault_line(const FaultInjection& fault);

// Right after lowering: faults of one operator. After merging: those of two operators in one kernel.
bool inject_fault(LoopProgram& program, const FaultInjection& fault, bool merged);

}  // namespace kiln::loops
