// Setting check_bounds, the machine's side: the package's kernels built again from the source in its debug section,
// every load and store checked (libkiln_debug.so, by the C++ compiler or the NVRTC of this machine). The loops are
// checked beside (runtime/checked_steps.h); this is what the printer and its vectors, tails and masks made of them.
#pragma once
#include <memory>
#include <string>

#include "kiln/debug_library.h"
#include "package/format.h"
#include "runtime/device.h"
#include "runtime/log.h"
#include "runtime/package_files.h"

namespace kiln::runtime {

struct BuildTools {
  std::string compiler, nvrtc;  // the settings of these names; "": what is found
};

class CheckedCode {
 public:
  // Null where it cannot be done, which is said in the log with the reason. Throws K0639 without libkiln_debug.so.
  static std::unique_ptr<CheckedCode> make(const PackageFiles* files, const format::Plan& plan,
                                           const std::string& target, const Device& device, const BuildTools& tools,
                                           const Log& log);
  ~CheckedCode() { (module_ ? library_.discard_object : library_.discard)(built_); }
  CheckedCode(const CheckedCode&) = delete;
  CheckedCode& operator=(const CheckedCode&) = delete;
  // Of the host a kiln_kernel, of a GPU what a launch takes.
  const void* function(const std::string& symbol) const {
    return module_ ? module_->symbol(symbol) : reinterpret_cast<const void*>(library_.function(built_, symbol.c_str()));
  }

 private:
  CheckedCode(const kiln_debug_library& library, void* built, std::unique_ptr<CodeModule> module)
      : library_(library), built_(built), module_(std::move(module)) {}
  const kiln_debug_library& library_;
  void* built_;
  std::unique_ptr<CodeModule> module_;  // of a GPU
};

const kiln_debug_library& open_debug_library();  // throws K0639

}  // namespace kiln::runtime
