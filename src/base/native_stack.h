// The calls that led here, by their C++ names: TORCH_SHOW_CPP_STACKTRACES adds it to every error.
//
// Names come from the symbol tables of the program and its libraries (.symtab, else .dynsym); code without either is
// shown as file and offset, which addr2line understands.
#pragma once
#include <string>

namespace kiln {

// TORCH_SHOW_CPP_STACKTRACES is set to something other than 0, or a scope of this thread asks for it.
bool native_stacks_wanted();

// While one that is on lives, errors made on this thread carry their stack: the setting of one model, where the
// environment is the whole process's.
class NativeStackScope {
 public:
  explicit NativeStackScope(bool on);
  ~NativeStackScope();
  NativeStackScope(const NativeStackScope&) = delete;

 private:
  bool before_;
};

// One line per call, innermost first: "  #0 kiln::compile(…) + 0x1f4 [kiln]". Leaves out this function and `skip` of
// its callers.
std::string native_stack_text(int skip = 0);

}  // namespace kiln
