// One trial of a program: compile it, load it, run it on its sample inputs and, when asked, compare the results with
// the reference. Runs in a child process (minify/trials.h); it may crash, hang or use up the memory.
//
// The modes are in the order of what they cost. A failure that shows in a cheaper mode is reduced there and confirmed
// in `compiled` at the end: an error of Kiln's own passes needs no C++ compiler, one of the C++ compiler needs no code,
// and what loop passes break shows in the loop interpreter.
#pragma once
#include <functional>
#include <optional>

#include "base/file.h"
#include "base/settings.h"
#include "compile/compile.h"
#include "executable/executable.h"
#include "graph/graph.h"
#include "minify/failure.h"

namespace kiln::minify {

enum class ProbeMode : uint8_t { generated, syntax, loops, compiled };
const char* probe_mode_name(ProbeMode mode);

struct ProbeOptions {
  ProbeMode mode = ProbeMode::compiled;
  bool accuracy = false;
  std::optional<double> rtol, atol;
  const CallResult* expected = nullptr;  // of the reference, where they are known
  bool as_check = false;                 // judge as `kiln check` does (minify/accuracy.h)
  const Settings* settings = nullptr;    // of both phases
  std::vector<std::string> custom_op_libs;
  std::string device;  // to compile for; empty: where the program was exported
};

// Called with the name of what begins now: compile, load, run, compare.
using StageEntered = std::function<void(const std::string& stage)>;

// Compiles the program as a trial does.
CompileReport compile_into(const TemporaryDirectory& directory, const Program& program, const ProbeOptions& options);

Failure probe(const Program& program, const ProbeOptions& options, const StageEntered& entering);

}  // namespace kiln::minify
