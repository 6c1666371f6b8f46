// Machine code from a package into this process.
//
// A shared object is loaded from an anonymous memory file, so that nothing is written to disk while debuggers and
// profilers still see its symbols; where that is refused, from a private temporary file that is removed at once; where
// that is refused too, an error (K0512) names the policies that refused.
#pragma once
#include <memory>
#include <string>

#include "base/file.h"

namespace kiln::runtime {

// Where kernels come from. Tests give their own.
class CodeModule {
 public:
  virtual ~CodeModule() = default;
  virtual void* symbol(const std::string& name) const = 0;  // nullptr: none
};

std::unique_ptr<CodeModule> load_shared_object(ByteSpan bytes, const std::string& label);
// From a file of this path, which is written unless it is there already, and stays: perf reads the names of kernels
// from it when the process has ended. Throws K0512.
std::unique_ptr<CodeModule> load_kept_object(ByteSpan bytes, const std::string& path);
std::unique_ptr<CodeModule> open_shared_object(const std::string& path);  // of a user's custom operators

}  // namespace kiln::runtime
