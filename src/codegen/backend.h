// Code generation for a device, as the rest of Kiln sees it: which targets there are, and what the kernels of a
// scheduled program look like there. What is behind it (its folders) nobody else includes.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "loop_passes/inject_fault.h"
#include "loops/loops.h"
#include "schedule/target.h"
#include "types/access.h"
#include "types/device.h"
#include "types/dtype.h"

namespace kiln::codegen {

using loops::Target;

// What a step gives to the function that runs it.
struct StepCode {
  int function = 0;                      // index into GeneratedCode::symbols
  std::vector<loops::BufferId> buffers;  // b0, b1, … in the order of the argument
  std::vector<Access> access;            // per buffer
  std::vector<Expr> ints;          // what n0, n1, … are: symbols, or expressions over symbols (floats as their bits)
  std::vector<loops::Site> sites;  // by the number the kernel raises with
  // Memory of the thread that runs an item: scratch0, scratch1, … one behind the other, each at a multiple of 64 bytes.
  std::vector<loops::BufferId> scratch;
  Expr scratch_bytes = 0;
};

// What launching a function of a GPU takes, beside its arguments.
struct KernelLaunch {
  size_t unit = 0;  // the source that it stands in
  size_t buffers = 0, ints = 0;
  int threads = 0, team = 1;  // of a block; that take an item together
  int64_t shared = 0;         // bytes of shared memory beside what the function declares
};

struct GeneratedCode {
  std::vector<std::string> sources;  // translation units, complete
  // What the compiler gets of a CPU's units: the same kernels, with what they have in common as functions.
  std::vector<std::string> compiled;
  std::vector<std::string> flags;    // for the compiler
  std::vector<std::string> symbols;  // exported functions; kernels that print the same text share one
  std::vector<std::string> texts;    // of the functions alone, for people
  std::map<const loops::Kernel*, StepCode> steps;
  std::vector<KernelLaunch> launches;  // of a GPU: by function
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual DeviceType device() const = 0;
  virtual const char* source_ending() const = 0;  // of the files that its code is shown in: "cpp"
  virtual std::vector<std::string> target_names() const = 0;
  virtual std::string host_target_name() const = 0;  // the best that this machine runs
  // The lowest of them that a program with values of these types gains all from: its code runs in more places.
  virtual std::string host_target_for(const std::set<DType>& types) const;
  // Throws K0403 for a name nobody knows, listing those that are known. `simdlen_bits`: at most such vectors; 1: none.
  virtual Target target(const std::string& name, int simdlen_bits = 0) const = 0;

  // `fault`: kernels that it hits begin with its line of C++ (testing only).
  virtual GeneratedCode generate(const loops::LoopProgram& program, const Target& target,
                                 const loops::FaultInjection& fault = {}) const = 0;
  // One kernel's arguments, as `generate` would give them.
  virtual StepCode step_code(const loops::Kernel& kernel, const loops::LoopProgram& program) const = 0;
  // A complete translation unit of such texts: what they need stands in front.
  virtual std::string unit_text(const std::string& kernels, const Target& target) const = 0;
  // The functions of a translation unit, by name: what `generate` put together, taken apart again.
  virtual std::map<std::string, std::string> functions_of_unit(const std::string& unit) const = 0;
  // The unit with every load and store checked: each access first asks whether the bytes it is about to touch lie in
  // the buffer whose pointer it was given, and returns from the kernel where they do not. The kernel's context must be
  // a kiln_checked_context (kiln/debug_library.h). Throws K0645 for one in which a buffer is used in a way that is not
  // known, so that what is not checked is not called checked.
  virtual std::string with_checked_accesses(const std::string& unit, int lanes) const = 0;
};

// The backend for a device; throws K0404 where there is none.
const Backend& backend_for(DeviceType device);
// Of a backend that is asked for a target that it does not know: K0403, and whose it is.
[[noreturn]] void fail_unknown_target(const Backend& asked, const std::string& name);
inline const Backend& cpu_backend() { return backend_for(DeviceType::cpu); }

// Of the table kiln_kernels that the last unit ends with (include/kiln/kernel_abi.h).
inline constexpr uint32_t kernel_table_version = 3;

}  // namespace kiln::codegen
