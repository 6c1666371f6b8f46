// minify(): a program that fails in, the smallest program that fails the same way out.
//
// The program is run first as users run it; what it shows is pinned as the signature. If nothing fails, or the failure
// does not come back, AOTIMinifierError says what was seen instead. The search (minify/reduce.h) runs in the cheapest
// mode in which the failure shows; the result is confirmed as compiled code.
#pragma once
#include "minify/probe.h"
#include "minify/repro_files.h"

namespace kiln::minify {

struct MinifyOptions {
  bool accuracy = false;
  std::optional<double> rtol, atol;
  std::string check_str;
  std::string save_dir;               // checkpoints; empty: in a new debug directory
  std::string copy_to = ".";          // where repro.py and repro.pt2 land; files of these names not its own stay
  std::vector<std::string> inputs;    // files that are read, and so never written
  std::string device;                 // that trials compile for and run on; empty: where the program was exported
  std::string after = "aot";          // inductor: down to a kernel in a C++ file of its own
  int jobs = 0;                       // 0: one per processor
  int runs = 3;                       // of the whole program, at least, to see whether it fails every time
  double timeout_seconds = 600;       // of the first compile
  double judge_seconds = 0;           // of each comparison with the reference; 0: as the first compile
  double least_run_seconds = 10;      // how long the first run may take before it counts as a hang, at least
  double slow_reference_seconds = 1;  // from there on the search begins with what `kiln bisect` blames
  std::vector<std::string> custom_op_libs;
  const Settings* settings = nullptr;
  // Lines that are printed, and the line that is rewritten while it works.
  std::function<void(const std::string& line)> say;
  std::function<void(const std::string& text)> progress;
};

struct MinifyResult {
  Program program;
  Failure failure;
  int nodes = 0;   // as PyTorch counts them
  int calls = 0;   // operators only
  int trials = 0;  // child processes
  double seconds = 0;
  bool interrupted = false;
  int signal = 0;           // interrupted: by which
  bool minimal = false;     // shown: leaving out any one operator loses the failure
  std::string repro;        // path of repro.py
  std::string kernel_file;  // --after inductor: the C++ file
};

// Settings of bundles, traces, logs and debug directories, which the trials of a search do without.
std::vector<std::string> settings_left_out();

// Throws K0680, "AOTIMinifierError: …", and Interrupted (minify/trials.h) where the failure was not pinned down before.
MinifyResult minify(const Program& program, const MinifyOptions& options);

// One run in a child process with limits: what `command='run'` does. Throws Interrupted.
Failure run_once(const Program& program, const MinifyOptions& options);

}  // namespace kiln::minify
