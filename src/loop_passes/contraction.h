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
// Of such a nest: whether something follows the columns of a row, and how many products a row takes.
bool needs_whole_rows(const Body& body);
// Whether its columns come in groups that read different parts of a row: of several columns an index divides by.
bool has_groups(const Body& body);
double products_of_a_row(const Body& body, const LoopProgram& program);

}  // namespace kiln::loops
