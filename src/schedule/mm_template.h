// The matrix-product template. It is a schedule, not an operator: the kernel's body stays the plain nest
//
//   for m parallel { for n parallel { acc = for k reduce sum { a(m,k) * b(k,n) }; epilogue(m, n, acc) }; rest(m) }
//
// and the template says how to run it: MR rows by NR vectors of columns are accumulated in registers while k runs once.
// Its holes are load_a(m, k), load_b(k, n) and store(m, n, acc): each is filled by statements of the body, printed by
// the shared printer, so any pointwise prologue (dequantising) and epilogue (bias, gelu) fits. What follows the n loop
// inside the m loop (row statistics: softmax, norms) runs on full rows once their tiles are done.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

struct MmNest {
  std::vector<Loop*> batch;  // parallel loops around m, outermost first
  Loop* m = nullptr;
  Loop* n = nullptr;
  Stmt* k = nullptr;                   // the reduce loop's statement, in n->body
  std::vector<Stmt*> load_a;           // statements of k's body that depend on k and not on n, in order
  std::vector<Stmt*> load_b;           // statements that depend on k and n, not on m
  std::vector<Stmt*> shared;           // statements that depend on neither m nor n (a scale per k)
  ValueId a = no_value, b = no_value;  // the factors
};

// Whether the template can run this kernel; the reason if not.
struct MmAnswer {
  bool accepted = false;
  std::string reason;
  MmNest nest;
};
MmAnswer match_mm(Kernel& kernel, const LoopProgram& program, const RangeEnv& env);

}  // namespace kiln::loops
