// Contractions: sums over products of two factors that vary along different axes. The kernel's body stays the plain
// nest
//
//   for m parallel { for n parallel { acc = for k reduce sum { a(m,k) * b(k,n) }; epilogue(m, n, acc) }; rest(m) }
//
// and its contraction says which loop is which and what belongs to which factor. What follows the columns inside the
// rows (row statistics: softmax, norms) runs on full rows.
#pragma once
#include "loop_passes/passes.h"
#include "loops/loops.h"
#include "schedule/target.h"

namespace kiln::loops {

struct FoundContraction {
  std::optional<Contraction> contraction;
  std::string reason;  // why there is none
};
// Puts the product at the end of the sum's body, where there is one, and nested sums into the order that reads the left
// factor best.
FoundContraction recognise_contraction(Kernel& kernel, const LoopProgram& program);

// The same for sums that are no contraction: the window of a convolution that makes one channel, whose lanes are the
// terms. False: they stay as they are.
bool straighten_sums(Kernel& kernel, const LoopProgram& program);

// A product of one row has no loop over rows, and so is no contraction. With weights of bf16 or f16 it becomes one,
// around which a loop of one iteration stands, where they are worth packing: those that lie along their columns, of
// which an item would else read two lines of the cache here and two there, and those of a loop, which are read again
// and again, of bf16 if the target multiplies pairs of it. Weights that lie along their terms are read from the
// beginning to the end as they are. `again`: the kernel runs many times in a call.
bool row_of_one(LoopProgram& program, Kernel& kernel, const Target& target, bool again);

}  // namespace kiln::loops
