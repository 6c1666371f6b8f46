#include "debug/bisection.h"

#include <algorithm>

#include "debug/bisect_checks.h"
#include "debug/bisected_call.h"
#include "executable/package_executable.h"

namespace kiln {
namespace {

std::vector<uint64_t> sums_of(const std::vector<Datum>& outputs) {
  std::vector<uint64_t> sums;
  for (const Datum& output : outputs) sums.push_back(output.is_tensor() ? checksum(output.tensor()) : 0);
  return sums;
}

void add_names(std::vector<std::string>& to, const std::vector<std::string>& from) {
  for (const std::string& name : from)
    if (std::find(to.begin(), to.end(), name) == to.end()) to.push_back(name);
}

// One call. False: it is the last.
bool bisect_call(BisectedCall& bisection, PackageExecutable& executable, const std::vector<Datum>& inputs,
                 const BisectionRun& run, std::map<std::string, Tensor>& state, std::vector<std::vector<Datum>>& kept,
                 std::string& failure) {
  BisectResult& result = bisection.result();
  try {
    CallResult called = executable.call(inputs);
    if (run.compare) bisection.finish(called.outputs);
    state = std::move(called.state);
    kept.push_back(std::move(called.inputs));
    result.output_sums.push_back(sums_of(called.outputs));
  } catch (const Error& error) {
    if (!bisection.problem().empty())
      fail_user("K0542", str("bisecting stopped at ", bisection.current(), ":\n", bisection.problem()));
    if (error.code() != "K0636") {
      if (result.steps == 0) throw;
      if (error.code() == "K0643")
        bisection.blame_write_outside(error.message());
      else
        failure = error.what();
    }
  }
  return result.fault == FaultClass::none && failure.empty();
}

}  // namespace

BisectResult run_bisection(PackageDebug& package, const std::string& path, const std::vector<Datum>& inputs,
                           const BisectOptions& options, const BisectionRun& run) {
  PackageOptions load;
  load.settings = options.settings;
  load.custom_op_libs = options.custom_op_libs;
  load.weights = options.weights;
  if (run.guarded) load.settings.push_back("PYTORCH_NO_CUDA_MEMORY_CACHING=1");
  PackageExecutable executable(path, load);
  std::map<std::string, Tensor> state;
  std::vector<std::vector<Datum>> kept;  // inputs of all calls: no call is to find its own where the last one's were
  BisectResult whole;
  for (int call = 1; call <= options.calls; ++call) {
    run.progress.call = call;
    BisectedCall bisection(package, inputs, options, run, call, state);
    executable.set_hook(&BisectedCall::hook, &bisection);
    std::string failure;
    const bool more = bisect_call(bisection, executable, inputs, run, state, kept, failure);
    executable.set_hook(nullptr, nullptr);
    BisectResult& result = bisection.result();
    result.steps += whole.steps, result.against_graph += whole.against_graph;
    result.against_loops += whole.against_loops;
    add_names(result.untold, whole.untold);
    add_names(result.by_loops, whole.by_loops);
    result.output_sums.insert(result.output_sums.begin(), whole.output_sums.begin(), whole.output_sums.end());
    whole = std::move(result);
    if (!failure.empty()) {
      whole.fault = FaultClass::failed;
      whole.step = bisection.current();
      whole.text = str("the run failed at ", whole.step, call > 1 ? str(" (call ", call, ")") : "",
                       ", every step before it was right:\n", failure);
    }
    if (!more) break;
  }
  return whole;
}

}  // namespace kiln
