// Of use_block_tile: convolutions over few channels.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

// A convolution whose channels are too few, or too odd a number, to come in words (a picture's three colours): its
// picture is copied, once, with the channels beside one another and filled up with zeros to a number that does, and its
// weights lie filled up likewise. Gives the kernel that copies; nothing where the convolution is of another kind.
std::optional<Kernel> fill_channels(LoopProgram& program, Kernel& kernel);

}  // namespace kiln::loops
