#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "command.h"
#include "console.h"
#include "debug/package_debug.h"
#include "debug/tell_package.h"
#include "executable/package_executable.h"
#include "minify/dump.h"
#include "minify/package_program.h"
#include "package_inputs.h"
#include "values.h"

namespace kiln::cli {
namespace {

void print_timing(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  const double p99 = seconds[std::min(seconds.size() - 1, seconds.size() * 99 / 100)];
  printf("%zu calls: median %s, min %s, 99%% below %s\n", seconds.size(), seconds_text(median).c_str(),
         seconds_text(seconds.front()).c_str(), seconds_text(p99).c_str());
}

// This command never starts a compiler: what it runs is in the package.
int run_package(const ParsedOptions& options, const Settings& settings, minify::DumpOnFailure& dump) {
  const std::string& path = options.positional[0];
  PackageOptions package_options;
  package_options.settings = options.values("--config");
  package_options.custom_op_libs = options.values("--custom-op-lib");
  package_options.device_index = static_cast<int>(options.integer("--device-index", -1, 1023).value_or(-1));
  const int64_t repeat = options.integer("--repeat", 1, 100'000'000).value_or(0);
  const std::vector<Datum> inputs = package_inputs(path, options);
  dump.set_inputs(inputs);
  dump.before();
  package_options.fault = [&](const std::string& text) {
    dump.failed();
    trace_error(Error(ErrorKind::user, "K0638", text), settings);
  };
  PackageExecutable package(path, package_options);
  const CallResult result = package.call(inputs);
  dump.finished(result);
  deliver_outputs(result.outputs, package_output_keys(path), options);
  if (repeat > 0) print_timing(package.time_calls(inputs, static_cast<int>(repeat)));
  return 0;
}

int run_watched(const ParsedOptions& options) {
  const Settings settings =
      settings_of(options, Phase::run);  // refuses keys that come too late; the runtime has its own
  require_package(options.positional[0]);
  check_output_option(options);
  check_output_fits(package_output_stand_ins(options.positional[0]), package_output_keys(options.positional[0]),
                    options);
  for (const std::string& note : tell_of_package(options.positional[0], settings))
    fprintf(stderr, "note: %s\n", note.c_str());
  const std::string& path = options.positional[0];
  minify::DumpOnFailure dump(
      settings, options.values("--custom-op-lib"), [&] { return minify::program_of_package(path); },
      [](const std::string& text) { fprintf(stderr, "%s\n", text.c_str()); },
      [&] { return minify::settings_of_package(path); });
  try {
    return run_package(options, settings, dump);
  } catch (const Error& error) {
    dump.failed(error.code());
    trace_error(error, settings);
    throw;
  }
}

}  // namespace

Command run_command() {
  CommandSpec spec;
  spec.name = "run";
  spec.positional = "PKG";
  spec.least = spec.most = 1;
  spec.summary = "runs a package";
  spec.details =
      "Without --inputs it runs on the sample inputs that the model was exported with. Files may be .pt, .npy, .npz or "
      ".safetensors: a list in the model's order, or names, which must all match the model's. A .pt may be nested as "
      "forward takes its arguments. Constant arguments may be left out.";
  spec.options = {
      {"--inputs", "", "F", "the inputs: a list in the model's order, or by name (default: the samples)", false,
       FileUse::read},
      {"--output", "-o", "OUT", "writes the outputs to this file", false, FileUse::written},
      {"--repeat", "", "N", "calls it N more times and prints how long a call takes", false},
      {"--device-index", "", "I", "which device of the package's kind", false},
      {"--custom-op-lib", "", "L", "shared library with custom operators, beside those in the package", true,
       FileUse::read},
  };
  spec.examples = {"kiln run model.kiln.pt2", "kiln run model.kiln.pt2 --inputs batch.npz -o result.pt --repeat 1000",
                   "kiln run model.kiln.pt2 --config aot_inductor.debug_intermediate_value_printer=2"};
  return {spec, run_watched};
}

}  // namespace kiln::cli
