// Recognises a matrix product among reductions: a sum over products inside a parallel axis that not all factors share,
// so that every factor is read many times.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

bool is_contraction(const Loop& loop, const std::vector<const Loop*>& enclosing);
bool has_contraction(const Body& body);
// The nest around the first sum is one that can run in tiles: parallel loops, nothing written in front of them, nothing
// after the outer ones.
bool is_tileable(const Body& body);

}  // namespace kiln::loops
