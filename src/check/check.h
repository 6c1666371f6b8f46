// `kiln check` over many cases: in processes of their own, several at a time, so that a crash, a hang or exhausted
// memory fails one case and nothing else. A process takes one case after another (check/case_worker.h); a case that
// fails in one that has run others is run again in a new one, and that is its result.
#pragma once
#include <functional>

#include "base/json.h"
#include "check/check_case.h"

namespace kiln {

struct CheckOptions {
  int jobs = 1;                  // processes at a time; 0: all in this one, for who watches it from outside
  int cases_per_process = 128;   // one after another; 1: each has a process to itself
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
