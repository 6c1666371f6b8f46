// Which roundings of narrow floats (f16, bf16, f8) fusion may skip. A value stored to a narrow buffer is rounded; where
// fusion forwards it to a load, the rounding is skipped unless it would show: a step function (a comparison, a test for
// NaN, a cast to an integer or to f8, floor, argmax, an operator outside of Kiln) or a result of a wider type depends
// on the value, in this kernel or after any chain of kernels that hand it on; for one reader as for all of them. Matrix
// products end a chain: what they add up is never the same bit for bit.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

class Roundings {
 public:
  explicit Roundings(const LoopProgram& program);
  // Forwards a stored value to a load: gives the statement that takes the load's place. A narrow buffer's value keeps
  // the wider type it was computed in where all that use the load widen or store it and the rounding does not show.
  Stmt forwarded(const Stmt& load, ValueId stored, Kernel& kernel) const;

 private:
  bool shows(const Body& body, ValueId v, DType narrow, const std::set<const Loop*>& ends) const;
  bool may_skip(const Body& body, ValueId v, DType narrow) const;
  bool note_reads(const Kernel& kernel);
  DType dtype(BufferId buffer) const { return program_.buffers[static_cast<size_t>(buffer)].dtype; }
  const LoopProgram& program_;
  std::set<BufferId> shown_;  // a step or a wider result depends on what is in them
};

}  // namespace kiln::loops
