// A package's kernels built again from their own source, every load and store checked against its buffer
// (codegen/cpu/checked_access.h), and loaded into this process.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "kiln/kernel_abi.h"

namespace kiln {

class CheckedBuild {
 public:
  // Throws K0410 without a C++ compiler, K0411 where it fails, K0645 for a source that cannot be instrumented.
  CheckedBuild(const std::vector<std::string>& units, std::vector<std::string> flags, int lanes,
               const std::string& compiler);
  ~CheckedBuild();
  CheckedBuild(const CheckedBuild&) = delete;
  CheckedBuild& operator=(const CheckedBuild&) = delete;
  kiln_kernel function(const char* symbol) const;  // nullptr: none of this name

 private:
  TemporaryDirectory folder_;
  void* handle_ = nullptr;
};

// The same of a GPU's kernels: a code object as the package's, `object`, with machine code of checked accesses.
// `nvrtc`: its path; empty: the first that is found. Throws K0770 without NVRTC, K0771 where it fails, K0645, K0778.
std::string checked_device_code(const std::vector<std::string>& units, std::vector<std::string> flags,
                                std::string_view object, const std::string& nvrtc);

}  // namespace kiln
