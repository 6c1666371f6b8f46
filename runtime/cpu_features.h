// Which processor features there are, and whether code for a named target ("x86-64-v3", "x86-64-v4+vnni") may run.
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::runtime {

using CpuFeatures = std::set<std::string, std::less<>>;

CpuFeatures processor_features();  // of this machine, as far as the operating system lets them be used

struct TargetCheck {
  bool known = false;                // a target this runtime has heard of
  std::vector<std::string> missing;  // features; empty and known: it may run
  bool runs() const { return known && missing.empty(); }
};
TargetCheck check_target(std::string_view target, const CpuFeatures& features);

// The index of the best target that may run here. Throws K0511 naming what each one lacks.
size_t choose_target(const std::vector<std::string>& targets, const CpuFeatures& features);

}  // namespace kiln::runtime
