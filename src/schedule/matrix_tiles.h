// What the factors of a contraction must be for a processor's matrix instructions (AMX): each multiplies 16 rows of 32
// bf16 terms with 32 terms of 16 columns, which lie in pairs of terms, and adds the products up in f32.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

inline constexpr int64_t matrix_rows = 16, matrix_columns = 16, matrix_terms = 32;

struct MatrixFactors {
  const Stmt *left = nullptr, *right = nullptr;  // loads of bf16, in the innermost sum
  // How far apart, in elements, neighbouring rows of the left factor are where they can be read as they lie: a whole
  // number of instructions' terms, no mask, every row as far from the one before. Else they have to be copied.
  std::optional<Expr> row_distance;
};
// Empty, and `why` says it: the factors are something else.
std::optional<MatrixFactors> matrix_factors(const Kernel& kernel, const LoopProgram& program, std::string& why);

// Terms of a copied row: those of the innermost sum up to a multiple of an instruction's, for each of the sums around.
int64_t copied_terms(const ContractionNest& nest);

}  // namespace kiln::loops
