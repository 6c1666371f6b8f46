// compile(): a .pt2 in, a package out.
#pragma once
#include "base/settings.h"
#include "compile/fault_injector.h"
#include "graph/graph.h"

namespace kiln {

// How far to go. `generated`: no C++ compiler is started; `syntax`: it only reads the generated code, which shows most
// of its errors in a fraction of the time. Both leave no package: the minifier asks so a thousand times.
enum class CompileGoal : uint8_t { package, generated, syntax };

struct CompileOptions {
  std::string device;                       // cpu, cuda; empty: where the program was exported
  std::vector<std::string> targets;         // x86-64-v4, …; empty: the host's best
  std::vector<std::string> custom_op_libs;  // paths of shared libraries, embedded in the package
  bool strip_debug = false;                 // debug section goes to <package>.debug
  std::map<std::string, std::string> test;  // files of the test that the package carries (check/bundle.h)
  const Settings* settings = nullptr;       // those of phase R become defaults of the package; may be null
  CompileGoal goal = CompileGoal::package;
  std::string generated_to;              // with `generated`: a directory that gets loops, plan and sources
  std::vector<std::string> extra_flags;  // for the C++ compiler, after Kiln's own
  FaultInjector inject;                  // for tests of the debug tools only
  // Called with the stage's name and progress in it (done of total; total 0: unknown).
  std::function<void(const std::string& stage, int done, int total)> progress;
  // Called with what a compile that fails leaves behind (debug directory, trace); of one that succeeds the report's
  // notes say it.
  std::function<void(const std::string& note)> note;
};

struct CompileReport {
  std::string package_path;
  DeviceType device = DeviceType::cpu;  // that the package is for
  double seconds = 0, schedule_seconds = 0, toolchain_seconds = 0, package_seconds = 0, packing_seconds = 0;
  double weights_seconds = 0;  // writing weights, beside the compilation of kernels
  int kernels = 0;             // steps that run a generated kernel
  int kernels_compiled = 0;    // distinct bodies
  bool from_cache = false;     // the code object came from the kernel cache
  uint64_t package_bytes = 0;
  std::vector<std::string> notes;
  std::string missed_fault;  // testing only, one of the notes: the fault to inject was put in nowhere
};

// The program of a .pt2 as compile() takes it: with its source files named as packages name them.
Program read_model(const std::string& path, const Settings* settings);

// Default output path: MODEL.pt2 -> MODEL.kiln.pt2
std::string default_package_path(const std::string& model_path);
CompileReport compile(const std::string& model_path, const std::string& package_path, const CompileOptions& options);
CompileReport compile(const Program& program, const std::string& package_path, const CompileOptions& options);

}  // namespace kiln
