// Puts one mutant through everything that a user would do with it and says how that went.
//
//   refused    some part said no, with a code of docs/errors.md that is not a bug's
//   right      what was compiled computes what the reference interpreter computes from the same program
//   not_run    it compiles, and its tensors are too large to be computed here
//   unstable   the reference itself moves that far when it computes in f64
//   failed     anything else: an internal error, another exception, a difference; or (seen by the parent) a crash, a
//              report of a sanitizer, too much time
#pragma once
#include <memory>
#include <string>

#include "executable/executable.h"
#include "mutant.h"

namespace kiln::mutants {

enum class Outcome { right, not_run, unstable, refused, failed };
constexpr size_t outcomes = 5;
const char* outcome_name(Outcome outcome);

struct Verdict {
  Outcome outcome = Outcome::right;
  std::string message;
};

// A .pt2: read, inspected, interpreted, compiled, loaded, run, compared. `directory` is for its files.
Verdict judge_model(const Mutant& mutant, const Base& base, const std::string& directory);
// A package: loaded and inspected; run where the mutant allows it, and compared with what the good one gives.
class PackageJudge {
 public:
  PackageJudge(const Base& base, const std::string& directory);  // runs the good one
  Verdict judge(const Mutant& mutant);

 private:
  std::string path_;
  std::vector<Datum> inputs_;
  CallResult expected_;
};

// Compiles the case's model; the package's bytes.
Base package_of(const Base& model, const std::string& directory);

}  // namespace kiln::mutants
