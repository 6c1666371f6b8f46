// `kiln bench`: how long calls of a package take, as those who serve it see them. Latencies of single calls, by one
// caller or several at once; loading, the first call, memory beside them.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "types/expr.h"
#include "types/tensor.h"

namespace kiln {

struct BenchOptions {
  double warmup_seconds = 0.2;   // at least one call of each caller
  double duration_seconds = 3;   // of measuring
  std::optional<int64_t> count;  // that many calls in all instead
  int callers = 1;               // threads of ours that call at the same time
  int device_index = -1;
  bool fresh_outputs = false;  // each call has Kiln allocate its outputs, and releases those of the one before
  std::vector<std::string> settings, custom_op_libs;
  std::string weights;                                  // as PackageOptions::weights
  std::function<void(const std::string& text)> fault;   // as PackageOptions::fault
  std::function<void(const std::string& stage)> stage;  // told what begins
};

struct BenchResult {
  // What was measured.
  std::string package, model, build_id, target;
  std::string inputs;  // "samples", "random, seed 0", the file's path
  SymbolValues sizes;  // that the inputs give the symbols
  int threads = 1;     // that a call may use, whoever said so: an option, a setting, the package, the machine
  int callers = 1;
  bool fresh_outputs = false;
  // What came out; seconds, bytes.
  double load = 0;        // kiln_load and the first instance
  double first_call = 0;  // memory for these sizes is allocated in it
  int64_t calls = 0;
  double wall = 0;  // from the start of the first measured call to the end of the last
  double mean = 0, least = 0, most = 0;
  std::vector<double> latencies;     // sorted; of all calls, or where there were too many to keep, of a fair sample
  std::vector<double> part_medians;  // of ten equal parts of the time; fewer where a part had no call
  uint64_t resident_before = 0;      // of the process: before loading, with the inputs in memory,
  uint64_t resident_after = 0;       // when all callers are warm,
  uint64_t resident_peak = 0;        // and the most that it had been by then
  bool restored_inputs = false;      // calls write inputs: they were put back before each, which is not in latencies

  double percentile(double share) const;  // nearest rank: the smallest that `share` of the calls do not exceed
  double throughput() const { return wall > 0 ? static_cast<double>(calls) / wall : 0; }
};

// Throws what loading and running throw.
BenchResult bench(const std::string& package, const std::vector<Datum>& inputs, const BenchOptions& options);

}  // namespace kiln
