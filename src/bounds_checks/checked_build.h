// A package's kernels built again from their own source, every load and store checked against its buffer
// (codegen/cpu/checked_access.h), and loaded into this process.
#pragma once
#include <string>
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

}  // namespace kiln
