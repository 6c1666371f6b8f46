// One case of `kiln check`: a case directory (files of docs/commands.md) or a bare .pt2, which is compared with the
// reference interpreter on its sample inputs. Makes the program runnable by the chosen backend, makes every call that
// the case has files for, compares, and says the first thing that went wrong.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "check/compare.h"
#include "executable/executable.h"

namespace kiln {

struct CaseOptions {
  ExecutableOptions executable;
  std::optional<double> rtol, atol;  // over the case's own and the dtypes'
};

enum class CaseStatus { passed, failed, skipped };
const char* case_status_name(CaseStatus status);

struct CaseResult {
  std::string path;
  CaseStatus status = CaseStatus::failed;
  std::string stage;               // where it failed: "read", "compile", "call 0", "sequence call 2", "bad_inputs_0"
  std::string message;             // failed: what, where, how far; skipped: why. One line
  std::string code;                // of the Error, when one was the reason: "K0200"
  std::string op;                  // of the Error: the operator
  std::vector<std::string> notes;  // what was done otherwise than one may think: "moves it to the CPU"
  std::string log;      // what the case's process wrote to stdout and stderr, as far as CheckOptions keeps it
  int calls = 0;        // made and compared
  int64_t rescued = 0;  // values that only the fp64 reference let pass
  double worst = 0;     // largest error of a passing value, in units of its tolerance
  double seconds = 0, compile_seconds = 0;
};

// Never throws: what goes wrong is in the result. A signal or a hang is the caller's matter (check/check.h).
CaseResult check_case(const std::string& path, const CaseOptions& options);

// Whether the path is that of a package, which is run as it is on the test that it carries (check/bundle.h).
bool is_package_case(const std::string& path);

// A path is a .pt2, a package, a case directory (it has a model.pt2), or a folder that is searched for case
// directories. The result is sorted within each path. Throws K0170 when a path does not exist or holds no case.
std::vector<std::string> find_cases(const std::vector<std::string>& paths);

}  // namespace kiln
