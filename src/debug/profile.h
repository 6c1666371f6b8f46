// `kiln profile`: where the time of a package's runs goes. Times every step through the hooks of kiln.h, counts its
// bytes and floating-point operations (from its arguments and from the loops of the debug section), and sets them
// against what this machine was measured to do.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "debug/machine_limits.h"
#include "types/tensor.h"

namespace kiln {

struct ProfileOptions {
  int runs = 20, warmup = 3;
  std::vector<std::string> settings, custom_op_libs;
  std::string weights;                                  // as PackageOptions::weights
  std::function<void(const std::string& text)> fault;   // as PackageOptions::fault
  std::function<void(const std::string& stage)> stage;  // told what begins
  std::string sort_by = "time";                         // name, calls, time, share, bytes, flops, gflops, gbs, limit
};

struct KernelProfile {
  std::string name, origin;
  std::string function;  // that it calls; kernels with equal bodies share one
  std::string module;    // of the user's model
  int64_t calls = 0;     // per run
  double seconds = 0;    // per run, summed over its calls: the median of the runs
  double least = 0;      // of the runs: what it takes where nothing else is in its way
  double least_cpu = 0;  // likewise of the calling thread alone, by the time that it had a processor
  double bytes = 0;  // per run: what it reads and writes of its arguments, once each (a library kernel: all of them)
  double flops = 0;  // per run; negative: not known (no debug section, or no generated kernel)
  Arithmetic arithmetic = Arithmetic::single_terms;  // what they are computed by
};

struct TraceEvent {
  std::string name, origin;
  double begin = 0, seconds = 0;  // of the last run, from its start
  int64_t iteration = 0;
};

struct Profile {
  std::vector<KernelProfile> kernels;  // sorted as asked
  std::vector<TraceEvent> last_run;
  MachineLimits machine;
  // Medians of as many runs of either kind, made in turns by a caller that allocates nothing.
  double run_seconds = 0;       // of a run without the profiler
  double profiled_seconds = 0;  // of a run with it
  double steps_seconds = 0;     // of all steps of a run with it
  double overhead = 0;          // of what it adds to a run; 0: less than can be measured
  int threads = 1;              // that a run may use
  int runs = 0;
  bool counted_flops = false;
  std::string sorted_by = "time";
};

// Throw K0679 where there is no such column to sort by.
void require_profile_column(const std::string& name);
void sort_kernels(std::vector<KernelProfile>& kernels, const std::string& by, const MachineLimits& machine);
Profile profile(const std::string& package, const std::vector<Datum>& inputs, const ProfileOptions& options);
std::string profile_table(const Profile& profile);
std::string profile_line(const Profile& profile);  // the last word: how long a run takes
Json profile_json(const Profile& profile);         // the same numbers, with their units in the names
std::string chrome_trace(const Profile& profile);  // JSON for chrome://tracing and Perfetto

}  // namespace kiln
