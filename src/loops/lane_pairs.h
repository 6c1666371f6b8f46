// Sums in lanes of the products of bf16: `@lane(32, exact)` of 16 lanes says that each lane adds up pairs of
// neighbouring terms, by one instruction.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

// The loads of bf16 whose product is summed up in f32, just as they are, without a mask.
struct PairFactors {
  const Stmt *left = nullptr, *right = nullptr;
};
std::optional<PairFactors> pair_factors(const Loop& sum);

// Whether the directives say so, of a sum that can.
bool takes_pairs(const Loop& sum, int lanes);

// Inside of loops that run side by side: `@unroll(2)` at such a sum says that each step adds up a pair of neighbouring
// terms. In lanes these lie beside one another too: [pair, lane, which of the pair].
bool takes_pairs_in_tile(const Loop& sum);

}  // namespace kiln::loops
