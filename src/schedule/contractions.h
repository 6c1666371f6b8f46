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

namespace kiln::loops {

struct FoundContraction {
  std::optional<Contraction> contraction;
  std::string reason;  // why there is none
};
// Puts the product at the end of the sum's body, where there is one, and nested sums into the order that reads the left
// factor best.
FoundContraction recognise_contraction(Kernel& kernel, const LoopProgram& program);

}  // namespace kiln::loops
