// Of bind_threads: rows of an item that its threads keep in registers.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

// Every loop of the item is a plain one of a fixed length that threads can share out.
bool has_flat_rows(const Body& item);

// Turns up to `most` rows of the item into scratch; gives how many.
int hold_rows(LoopProgram& program, Kernel& kernel, Body& item, int most);

}  // namespace kiln::loops
