// Inside of verify.cpp: what the order of a sum promises.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

// What is wrong with the order in which a reduction is added up; empty: nothing.
std::string wrong_order(const Loop& loop);

}  // namespace kiln::loops
