// `kiln check` over many cases: each in a process of its own, several at a time, so that a crash, a hang or exhausted
// memory fails one case and nothing else.
#pragma once
#include <functional>

#include "base/json.h"
#include "check/check_case.h"

namespace kiln {

struct CheckOptions {
  int jobs = 1;                  // processes at a time
  double timeout_seconds = 120;  // per case; what runs longer is killed and failed
  bool keep_output = false;      // CaseResult::log of every case and whole, not only the end of a failing one's
  // What one process does; check_case unless a test says otherwise.
  std::function<CaseResult(const std::string& path)> run_case;
  // In the order in which cases end; called in this process.
  std::function<void(const CaseResult& result, int done, int total)> progress;
};

struct CheckSummary {
  int passed = 0, failed = 0, skipped = 0;
  int64_t rescued = 0;
  double seconds = 0;
  std::vector<CaseResult> cases;  // in the order of the paths given
};

CheckSummary check_cases(const std::vector<std::string>& cases, const CheckOptions& options);
std::string summary_line(const CheckSummary& summary);  // "12 passed, 1 failed, 0 skipped"
Json summary_json(const CheckSummary& summary);         // everything

}  // namespace kiln
