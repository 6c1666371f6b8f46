// The calls that led here, by their C++ names: TORCH_SHOW_CPP_STACKTRACES adds it to every error.
//
// Names come from the symbol tables of the program and its libraries (.symtab, else .dynsym); code without either is
// shown as file and offset, which addr2line understands.
#pragma once
#include <string>

namespace kiln {

// TORCH_SHOW_CPP_STACKTRACES is set to something other than 0.
bool native_stacks_wanted();

// One line per call, innermost first: "  #0 kiln::compile(…) + 0x1f4 [kiln]". Leaves out this function and `skip` of
// its callers.
std::string native_stack_text(int skip = 0);

}  // namespace kiln
