// How long each temp must keep its memory, from the steps alone.
#pragma once
#include "runtime/program.h"

namespace kiln::runtime {

// One Lifetime per buffer, of its owner; `loops` lengthen them: a value that may survive from one iteration to the next
// lives through the whole loop.
std::vector<Lifetime> find_lifetimes(const Program& program);

}  // namespace kiln::runtime
