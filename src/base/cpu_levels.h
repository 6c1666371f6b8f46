// The levels of processors, known here alone: which features there are, which level asks for which, and whether code
// for a named target ("x86-64-v3", "x86-64-v4+bf16+amx") may run. The compiler chooses its default target by the same
// table by which the runtime accepts it.
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

using CpuFeatures = std::set<std::string, std::less<>>;

CpuFeatures processor_features();  // of this machine, as far as the operating system lets them be used

struct TargetCheck {
  bool known = false;                // a target this runtime has heard of
  std::vector<std::string> missing;  // features; empty and known: it may run
  bool runs() const { return known && missing.empty(); }
};
TargetCheck check_target(std::string_view target, const CpuFeatures& features);

// Asks the system for what code of this target needs beside a processor that has it: the registers of AMX, which a
// process is given when it asks. False: they are refused.
bool allow_target(std::string_view target);

std::string best_cpu_level(const CpuFeatures& features);  // "x86-64-v3"; empty: a processor of another kind

// The index of the best target that may run here. Throws K0511 naming what each one lacks.
size_t choose_target(const std::vector<std::string>& targets, const CpuFeatures& features);
// Likewise, of those that the system allows as well (allow_target).
size_t choose_allowed_target(const std::vector<std::string>& targets, const CpuFeatures& features);

}  // namespace kiln
