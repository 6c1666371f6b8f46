// Setting check_bounds, the machine's side: the package's kernels built again from the source in its debug section,
// every load and store checked (libkiln_debug.so, by the C++ compiler of this machine). The loops are checked beside
// (runtime/checked_steps.h); this is what the printer and its vectors, tails and masks made of them.
#pragma once
#include <memory>
#include <string>

#include "kiln/debug_library.h"
#include "runtime/log.h"
#include "runtime/package_files.h"

namespace kiln::runtime {

class CheckedCode {
 public:
  // Null where it cannot be done, which is said in the log with the reason. Throws K0639 without libkiln_debug.so.
  static std::unique_ptr<CheckedCode> make(const PackageFiles* files, const std::string& target, const Log& log);
  ~CheckedCode() { library_.discard(built_); }
  CheckedCode(const CheckedCode&) = delete;
  CheckedCode& operator=(const CheckedCode&) = delete;
  kiln_kernel function(const std::string& symbol) const { return library_.function(built_, symbol.c_str()); }

 private:
  CheckedCode(const kiln_debug_library& library, void* built) : library_(library), built_(built) {}
  const kiln_debug_library& library_;
  void* built_;
};

const kiln_debug_library& open_debug_library();  // throws K0639

}  // namespace kiln::runtime
