// A file says of every value what it is: dtype, sizes, strides, offset in its storage, the expression of a number. The
// passes reason by that: which views share elements, where a write lands, how large a buffer is.
#pragma once
#include "graph/graph.h"

namespace kiln {

// Asks each operator's own rule and throws where the file says otherwise: K0237 for a dtype, a size or a number, K0242
// for strides or an offset, K0243 for a tensor with a negative size. A view's layout must be the one that its operator
// makes of its argument's; a new tensor may be laid out in any order (that is the choice of eager's kernel), without
// gaps or shared elements. What the ranges of the symbols leave open must hold at their values of the export, and gets
// an assertion before its node, which looks again at every call. Operators must be resolved; what stands inside of
// wrappers (graph_passes/wrappers.h) is left for the time when they are inlined.
void check_declared_types(Program& program);

}  // namespace kiln
