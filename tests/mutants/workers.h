// Child processes that judge mutants: a crash, a report of a sanitizer, an exhausted memory or a hang is one mutant's
// failure, and the others go on.
#pragma once
// g++ and clang++ say it differently.
#if defined(__SANITIZE_ADDRESS__)
#define KILN_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KILN_ADDRESS_SANITIZER 1
#endif
#endif
#ifndef KILN_ADDRESS_SANITIZER
#define KILN_ADDRESS_SANITIZER 0
#endif

#include <functional>
#include <string>
#include <vector>

#include "judge.h"

namespace kiln::mutants {

struct Report {
  size_t index = 0;
  Verdict verdict;
};

struct WorkerOptions {
  size_t jobs = 1;
  size_t seconds = 60;    // of processor time for one mutant
  size_t together = 200;  // mutants of one child
};

// Judges the mutants with these numbers. `judge` is called in a child, with a directory of that child's own; `done` in
// the parent.
using JudgeMutant = std::function<Verdict(size_t index, const std::string& directory)>;
void run_workers(const std::vector<size_t>& indices, const WorkerOptions& options, const JudgeMutant& judge,
                 const std::function<void(const Report&)>& done);

}  // namespace kiln::mutants
