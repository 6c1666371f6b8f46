// The smallest program that still fails: outputs are dropped, nodes are skipped or replaced by inputs, as long as the
// failure stays.
#pragma once
#include <functional>

#include "program.h"

namespace kiln::random_programs {

// `fails` says whether a candidate fails the same way; it must not throw.
RandomProgram shrink(const RandomProgram& failing, const std::function<bool(const RandomProgram&)>& fails);

}  // namespace kiln::random_programs
