// Complex numbers become pairs of real values.
//
// Loops knows no complex numbers. After this pass a complex value lives on as two real values of the same sizes and
// strides, its parts, and every operator on it has become real operators on the parts (their records say how:
// ops/op_facts.h). Parts are ordinary values: they fuse, and vectors hold neighbours of one kind. Complex memory
// remains only where others see it: inputs, constants, outputs, arguments of library kernels, custom operators and
// control flow. There kiln.complex_parts and kiln.complex_join, two library kernels, convert.
//
// An operator that does not take complex numbers is refused with K0203 and its source line.
#pragma once
#include "graph_passes/pass.h"

namespace kiln {

bool split_complex(Program& program, PassContext& context);

}  // namespace kiln
