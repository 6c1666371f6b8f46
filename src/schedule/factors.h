// A factor of a contraction, as a GPU's tiles bring it into shared memory.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

// Whether a factor lies along the innermost sum.
bool lies_along_terms(const std::vector<ContractionNest::Sum>& sums, bool left, const Kernel& kernel,
                      const LoopProgram& program);

// The number that a factor is, conversions to f32 that lose nothing aside.
struct FactorValue {
  DType dtype = DType::f32;
  const Stmt* load = nullptr;  // it comes from memory as it is; else it is computed on the way
};
FactorValue factor_value(const ContractionNest& nest, ValueId factor, bool left);

// Along which axis neighbours lie, and how many of them come in one word: `wanted`, or a half or a quarter of them, at
// least `least` (0: all or none).
struct Chunks {
  bool along_terms = false;
  int chunk = 1;
};
Chunks chunks_of(const ContractionNest& nest, const FactorValue& factor, bool left, int wanted, const Kernel& kernel,
                 const LoopProgram& program, int64_t least = 0);

}  // namespace kiln::loops
