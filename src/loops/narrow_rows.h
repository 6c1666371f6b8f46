// Rows of a product that lie in memory as bf16 or f16. Widening one element for each row and term takes three
// instructions beside the multiply-adds, for every panel of columns anew; a vector of terms takes two. So a tile widens
// the terms that come next, of all of its rows, to scratch (`widened_in`) and takes its factors from there.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

// The load of such rows in the innermost sum: neighbouring terms, whose mask, if any, the sum does not change. nullptr:
// the left factor is something else.
const Stmt* narrow_rows(const Kernel& kernel, const LoopProgram& program);

// Rows that a mask takes away are read from zeros, of at most so many terms.
inline constexpr int64_t longest_zeros = 4096;

// The elements for neighbouring terms are neighbours in memory.
bool lies_along(const std::string& term, const Stmt& load, const LoopProgram& program);
// The sum does not change the mask, and zeros can stand for all of its terms.
bool is_masked_whole(const Stmt& load, const Loop& sum);

inline bool is_narrow(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

}  // namespace kiln::loops
