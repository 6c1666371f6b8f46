// Weights of several products one below the other, in a derived buffer that copies in the init section fill.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

// One of the weights: its elements are those from `offset` on, along a dimension of the joined one.
struct JoinedPart {
  BufferId from = no_buffer;
  size_t dimension = 0;
  int64_t offset = 0, count = 0;
};

// The copies that fill `joined`.
void fill_joined(LoopProgram& program, BufferId joined, const std::vector<JoinedPart>& parts);

// What fill_joined was given; nothing: the buffer is made in another way.
std::vector<JoinedPart> joined_parts(const LoopProgram& program, BufferId joined);

// Takes the copies out again if nobody reads what they make.
void drop_unread_derived(LoopProgram& program, BufferId joined);

}  // namespace kiln::loops
