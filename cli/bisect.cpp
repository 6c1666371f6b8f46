#include "debug/bisect.h"

#include <cstdio>
#include <cstdlib>

#include "base/environment.h"
#include "base/text.h"
#include "command.h"
#include "console.h"
#include "debug/tell_package.h"
#include "json_output.h"
#include "package_inputs.h"
#include "weights_option.h"

namespace kiln::cli {
namespace {

int run_bisect(const ParsedOptions& options) {
  const Settings settings = settings_of(options, Phase::run);
  const std::string& path = options.positional[0];
  tell_notes(tell_of_package(path, settings));
  BisectOptions bisect_options;
  bisect_options.settings = options.values("--config");
  bisect_options.custom_op_libs = options.values("--custom-op-lib");
  bisect_options.weights = given_weights(path, options);
  bisect_options.tolerance.rtol = options.number("--rtol", 0);
  bisect_options.tolerance.atol = options.number("--atol", 0);
  if (const auto calls = options.number("--calls", 1)) bisect_options.calls = static_cast<int>(*calls);
  if (const auto seconds = options.number("--hang", 0)) bisect_options.hang_seconds = *seconds;
  bisect_options.compiler = compiler_of_environment();
  const JsonOutput json(options);
  // No thread shows the progress: bisecting forks.
  ProgressLine line;
  if (line.visible())
    bisect_options.told = [&](const std::string& text) { text.empty() ? line.clear() : line.show(text); };
  const BisectResult result = bisect(path, package_inputs(path, options), bisect_options);
  line.clear();
  if (!json.instead_of_text()) printf("%s\n", is_quiet() ? split(result.text, '\n')[0].c_str() : result.text.c_str());
  Json root = json.document("bisect");
  root.set("package", path);
  json.add(root, bisect_json(result));
  json.write(root);
  return result.fault == FaultClass::none ? 0 : 1;
}

}  // namespace

Command bisect_command() {
  CommandSpec spec;
  spec.name = "bisect";
  spec.positional = "PKG";
  spec.least = spec.most = 1;
  spec.summary = "finds the first kernel and operator that differ from the reference";
  spec.details =
      "Runs the package as it is, step by step, twice on one instance and in a child process, and compares what each "
      "kernel wrote with the fp64 reference of its operators given the same inputs; then once more with each buffer "
      "alone between guard pages. Names the kernel, the first operator inside it, the element, both values, the error "
      "in ulps and the source line; a kernel that crashes, does not end or leaves its buffers; or the fault of the "
      "plan or the weights: overlapping lifetimes, missing dependency, stale weight, wrong layout, control flow, a "
      "write to what must stay. The operator is found by the values between the operators of the kernel, as its loops "
      "compute them; where the loops are right and the machine code is not, as a rebuild of the kernel does, which "
      "needs a C++ compiler. Where it cannot be told, it says 'uncertain' and lists the operators, or the steps, that "
      "it may be. "
      "Needs the debug section of the package, or its sidecar PKG.debug beside it; not the model. Exit code 1 when "
      "something differs.";
  spec.options = {
      {"--inputs", "", "F", "the inputs: a list in the model's order, or by name (default: the samples)", false,
       FileUse::read},
      {"--rtol", "", "R", "relative tolerance; default: the dtype's, and what rounding explains", false},
      {"--atol", "", "A", "absolute tolerance", false},
      {"--calls", "", "N", "calls on one instance, 2 by default", false},
      {"--hang", "", "S", "seconds after which a single step is taken to hang, 60 by default", false},
      JsonOutput::option(),
      weights_option(),
      {"--custom-op-lib", "", "L", "shared library with custom operators, beside those in the package", true,
       FileUse::read},
  };
  spec.examples = {"kiln bisect model.kiln.pt2", "kiln bisect model.kiln.pt2 --inputs failing.pt --rtol 1e-3"};
  return {spec, run_bisect};
}

}  // namespace kiln::cli
