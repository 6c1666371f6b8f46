// A product in parts. The outermost sum of a tile that is bound `@serial` stands around the items: a piece of them adds
// one part of the sum after the other, and what each has so far waits where its result will be.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

bool is_in_parts(const ContractionNest& nest);
// Where the sums can wait: the kernel's only store, of f32, of neighbouring columns, to a buffer that it does not read.
// nullptr: there is no such place.
const Stmt* place_of_sums(const Kernel& kernel, const LoopProgram& program);

}  // namespace kiln::loops
