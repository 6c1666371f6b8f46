// aot_inductor.filtered_kernel_names: which steps the printer and the saver look at. Names or globs, case ignored; an
// empty list takes all.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "base/text.h"

namespace kiln::runtime {

class KernelFilter {
 public:
  explicit KernelFilter(std::vector<std::string> patterns) : patterns_(std::move(patterns)) {}
  bool matches(const char* name) const {
    return patterns_.empty() || std::any_of(patterns_.begin(), patterns_.end(),
                                            [&](const std::string& pattern) { return glob_match(pattern, name); });
  }
  const std::vector<std::string>& patterns() const { return patterns_; }

 private:
  std::vector<std::string> patterns_;
};

}  // namespace kiln::runtime
