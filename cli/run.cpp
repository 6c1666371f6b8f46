#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "command.h"
#include "console.h"
#include "debug/package_debug.h"
#include "executable/package_executable.h"
#include "json_output.h"
#include "package_inputs.h"
#include "progress_clock.h"
#include "values.h"
#include "watched_package.h"
#include "weights_option.h"

namespace kiln::cli {
namespace {

struct Timing {
  size_t calls = 0;
  double median = 0, least = 0, p99 = 0;
  explicit Timing(std::vector<double> seconds) : calls(seconds.size()) {
    std::sort(seconds.begin(), seconds.end());
    median = seconds[calls / 2], least = seconds.front();
    p99 = seconds[std::min(calls - 1, calls * 99 / 100)];
  }
  std::string text() const {
    return str(calls, " calls: median ", seconds_text(median), ", min ", seconds_text(least), ", 99% below ",
               seconds_text(p99), "\n");
  }
  Json json() const {
    Json out = Json::object();
    out.set("calls", static_cast<int64_t>(calls)), out.set("median", median), out.set("min", least),
        out.set("p99", p99);
    return out;
  }
};

// This command never starts a compiler: what it runs is in the package.
int run_package(const ParsedOptions& options, const Settings& settings, WatchedPackage& watched) {
  const JsonOutput json(options);
  const std::string& path = options.positional[0];
  PackageOptions package_options;
  package_options.settings = options.values("--config");
  package_options.custom_op_libs = options.values("--custom-op-lib");
  package_options.weights = given_weights(path, options);
  package_options.device_index = static_cast<int>(options.integer("--device-index", -1, 1023).value_or(-1));
  const int64_t repeat = options.integer("--repeat", 1, 100'000'000).value_or(0);
  const std::vector<Datum> inputs = package_inputs(path, options);
  watched.begin(inputs);
  package_options.fault = [&](const std::string& text) { watched.fault(text); };
  PackageExecutable package(path, package_options);
  ProgressClock progress;  // of what takes long: nothing that the program prints itself is to meet the line
  if (settings.get_bool("check_bounds")) progress.begin("running with every access checked");
  const CallResult result = package.call(inputs);
  progress.stop();
  watched.finished(result);
  const std::vector<std::string> keys = package_output_keys(path);
  deliver_outputs(result.outputs, keys, options, json);
  Json root = json.document("run");
  root.set("package", path), root.set("inputs", options.value_or("--inputs", "samples"));
  if (json.wanted()) root.set("outputs", outputs_json(result.outputs, keys));
  if (repeat > 0) {
    const Timing timing([&] {
      try {
        return package.time_calls(inputs, static_cast<int>(repeat));
      } catch (const Error&) {
        note_kept_buffers(path, "--repeat N with a smaller N");
        throw;
      }
    }());
    if (!json.instead_of_text()) fputs(timing.text().c_str(), stdout);
    root.set("seconds", timing.json());
  }
  json.write(root);
  return 0;
}

int run_watched(const ParsedOptions& options) {
  const Settings settings =
      settings_of(options, Phase::run);  // refuses keys that come too late; the runtime has its own
  require_package(options.positional[0]);
  check_output_option(options);
  check_output_fits(package_output_stand_ins(options.positional[0]), package_output_keys(options.positional[0]),
                    options);
  WatchedPackage watched(options.positional[0], settings, options);
  return watched.watch([&] { return run_package(options, settings, watched); });
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
      JsonOutput::option(),
      {"--device-index", "", "I", "which device of the package's kind", false},
      weights_option(),
      {"--custom-op-lib", "", "L", "shared library with custom operators, beside those in the package", true,
       FileUse::read},
  };
  spec.examples = {"kiln run model.kiln.pt2", "kiln run model.kiln.pt2 --inputs batch.npz -o result.pt --repeat 1000",
                   "kiln run model.kiln.pt2 --config aot_inductor.debug_intermediate_value_printer=2"};
  return {spec, run_watched};
}

}  // namespace kiln::cli
