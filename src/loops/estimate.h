// Sizes that are not known, as numbers for weighing one way against another.
#pragma once
#include "types/expr.h"

namespace kiln::loops {

struct LoopProgram;

// The expression at the export's sizes.
double estimate(const Expr& expr, const LoopProgram& program);

}  // namespace kiln::loops
