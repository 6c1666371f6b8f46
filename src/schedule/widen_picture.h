// Of take_points: a picture of bf16 or f16 whose elements meet all channels of a point one by one.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

// Widening an element takes as long as three of its products, in every point and for every vector of channels anew.
// Gives the kernel that copies the picture as f32 first; the load reads the copy.
Kernel widen_picture(LoopProgram& program, Kernel& kernel, Stmt& load);

}  // namespace kiln::loops
