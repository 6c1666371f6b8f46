// Products of bytes, as instructions take them that add the products of four u8 with four i8 to an i32: the left factor
// is u8 in memory (where a mask takes it away, a number), the right one i8, and both are widened to i32 in the sum.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

struct QuadFactors {
  const Stmt *left = nullptr, *right = nullptr;  // the loads, in the innermost sum
  int64_t padding = 0;                           // what a masked left element is
};
// Empty, and `why` says it: the factors are something else, or their terms are no fours that lie beside one another.
std::optional<QuadFactors> quad_factors(const Kernel& kernel, const LoopProgram& program, std::string& why);

}  // namespace kiln::loops
