// The calls that a case has files for, made on something that runs and compared: each on a fresh instance, then in a
// row on one, then those that must be refused. The first thing that goes wrong ends it.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "check/check_case_files.h"
#include "check/compare.h"
#include "executable/executable.h"

namespace kiln {

// Thrown to leave a case at its first failure.
struct CaseFailure {
  std::string stage, message;
};

struct CaseCalls {
  CaseCalls(const CaseFiles& case_files, Executable& what_runs, CompareOptions options)
      : files(case_files), executable(what_runs), compare(std::move(options)) {}

  const CaseFiles& files;
  Executable& executable;
  CompareOptions compare;
  // All may be empty.
  // The fp64 reference after these calls in a row, asked for only when a value is out of tolerance. Sample 0; the
  // others are as ReferenceLookup has them.
  std::function<const CallResult*(const std::vector<const std::vector<Datum>*>& calls, int sample)> reference;
  std::function<std::vector<Datum>(std::vector<Datum>)> placed;  // inputs, where the executable wants them
  std::function<std::vector<bool>()> written;                    // the inputs that the program says it writes
  // State after a call with all that a case may ask for, given what the call wrote.
  std::function<std::map<std::string, Tensor>(std::map<std::string, Tensor>)> whole_state;

  // What is known while it runs, and after.
  std::string stage;  // "call 0", "sequence call 2", "bad_inputs_0"
  int calls = 0;      // made and compared
  int64_t rescued = 0;
  double worst = 0;

  void run();
  // Throws CaseFailure where something differs.
  void compare_outputs(const CallResult& got, const std::vector<Datum>& expected,
                       const std::vector<const std::vector<Datum>*>& made);
  void take(const Comparison& comparison);

 private:
  void single_call(size_t i);
  void compare_inputs(const CallResult& got, const CaseFiles::Call& call);
  void compare_states(const CallResult& got, const CaseFiles::Call& call);
  void sequence();
  void refused(const CaseFiles::BadInputs& bad);
  std::vector<Datum> on_device(const std::vector<Datum>& inputs) const { return placed ? placed(inputs) : inputs; }
  const CallResult* reference_after(const std::vector<const std::vector<Datum>*>& made, int sample) const {
    return reference ? reference(made, sample) : nullptr;
  }
};

}  // namespace kiln
