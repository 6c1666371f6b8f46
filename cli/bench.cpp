#include "bench/bench.h"

#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "bench_report.h"
#include "command.h"
#include "console.h"
#include "debug/profile.h"
#include "executable/package_executable.h"
#include "json_output.h"
#include "package_inputs.h"
#include "progress_clock.h"
#include "thread_options.h"
#include "watched_package.h"
#include "weights_option.h"

namespace kiln::cli {
namespace {

BenchOptions bench_options(const ParsedOptions& options, const Settings& settings) {
  BenchOptions out;
  if (options.has("--seconds") && options.has("--count"))
    throw UsageError("--seconds and --count exclude each other: measure for a time, or so many calls");
  out.warmup_seconds = options.number("--warmup", 0).value_or(out.warmup_seconds);
  out.duration_seconds = options.number("--seconds", 0).value_or(out.duration_seconds);
  out.count = options.integer("--count", 1, 1'000'000'000'000);
  out.callers = static_cast<int>(options.integer("--callers", 1, 4096).value_or(1));
  out.device_index = static_cast<int>(options.integer("--device-index", -1, 1023).value_or(-1));
  out.fresh_outputs = options.has("--fresh-outputs");
  out.settings = run_settings(options, settings);
  out.custom_op_libs = options.values("--custom-op-lib");
  return out;
}

// Where the time goes inside a call, as `kiln profile` says it.
Profile kernels_of(const std::string& path, const std::vector<Datum>& inputs, const BenchOptions& options) {
  ProfileOptions profile_options;
  profile_options.settings = options.settings;
  profile_options.custom_op_libs = options.custom_op_libs;
  profile_options.weights = options.weights;
  profile_options.stage = options.stage;
  return profile(path, inputs, profile_options);
}

int run_bench(const ParsedOptions& options) {
  const Settings settings = settings_of(options, Phase::run);
  const std::string& path = options.positional[0];
  BenchOptions measured = bench_options(options, settings);
  const double tolerance = options.number("--tolerance", 0).value_or(10);
  const auto against = options.value("--against");
  if (options.has("--tolerance") && !against) throw UsageError("--tolerance belongs to --against");
  require_package(path);
  // Read first: a file that is something else is said before the minutes of measuring.
  Json base;
  if (against) {
    const std::string text = read_file(*against);
    try {
      base = parse_json(text, *against);
    } catch (const Error&) {
      fail_user("K0734", str(*against, " is not what 'kiln bench --json' writes: it is no JSON"));
    }
    require_bench_json(base, *against);
  }
  measured.weights = given_weights(path, options);
  const JsonOutput json(options);
  WatchedPackage watched(path, settings, options);
  const MadeInputs made = given_or_random_inputs(path, options);
  watched.begin(made.inputs);
  measured.fault = [&](const std::string& text) { watched.fault(text); };
  ProgressClock progress;
  measured.stage = [&](const std::string& stage) { progress.begin(stage); };
  BenchResult result;
  std::optional<Profile> kernels;
  try {
    result = watched.watch([&] { return bench(path, made.inputs, measured); });
    if (options.has("--kernels")) kernels = kernels_of(path, made.inputs, measured);
  } catch (const Error&) {
    progress.stop();
    note_random_inputs(options);
    note_kept_buffers(path, "--warmup 0 --count N; one call more is made first");
    throw;
  }
  result.inputs = made.source;
  Json root = bench_json(result);
  std::string text = is_quiet() ? bench_line(result) : bench_text(result);
  if (kernels) {
    root.set("profile", profile_json(*kernels));
    text += str("\n", profile_table(*kernels));
  }
  progress.stop();
  bool slower = false;
  if (against) {
    const BenchComparison comparison = compare_bench(base, *against, result, tolerance);
    slower = comparison.slower;
    text += is_quiet() ? comparison.verdict : comparison.text;
    tell_notes(comparison.notes);
    root.set("against", comparison.json);
  }
  if (!json.instead_of_text()) fputs(text.c_str(), stdout);
  json.write(root);
  return slower ? 1 : 0;
}

}  // namespace

Command bench_command() {
  CommandSpec spec;
  spec.name = "bench";
  spec.positional = "PKG";
  spec.least = spec.most = 1;
  spec.summary = "measures how long calls take";
  spec.details =
      "Loads the package, calls it once, warms up, and times every call: latencies with percentiles and a histogram, "
      "throughput, load and first call, memory. Inputs are the samples, those of --inputs, or random ones. With "
      "--callers several threads call at once, on one instance, or where calls change its state each on its own; "
      "inputs that calls write are put back before each. --against compares with an earlier --json: exit code 1 when "
      "the median call is slower than there by more than --tolerance.";
  spec.options = {
      {"--inputs", "", "F", "the inputs: a list in the model's order, or by name (default: the samples)", false,
       FileUse::read},
  };
  for (const OptionSpec& option : random_input_options()) spec.options.push_back(option);
  const std::vector<OptionSpec> more = {
      {"--warmup", "", "S", "seconds of calls before measuring (0.2)", false},
      {"--seconds", "", "S", "seconds to measure (3)", false},
      {"--count", "", "N", "measures this many calls instead", false},
      {"--callers", "", "N", "threads that call at the same time (1)", false},
      {"--fresh-outputs", "", "", "each call allocates its outputs and releases those before (default: once for all)",
       false},
      threads_option(),
      {"--kernels", "", "", "also the share of each kernel, as 'kiln profile' shows it", false},
      JsonOutput::option(),
      {"--against", "", "BASE.json", "compares with what an earlier --json wrote", false, FileUse::read},
      {"--tolerance", "", "P", "percent by which the median may be slower than there (10)", false},
      {"--device-index", "", "I", "which device of the package's kind", false},
      weights_option(),
      {"--custom-op-lib", "", "L", "shared library with custom operators, beside those in the package", true,
       FileUse::read},
  };
  spec.options.insert(spec.options.end(), more.begin(), more.end());
  spec.examples = {"kiln bench model.kiln.pt2", "kiln bench model.kiln.pt2 --shape s0=32 --callers 4 --threads 1",
                   "kiln bench model.kiln.pt2 --json base.json",
                   "kiln bench model.kiln.pt2 --against base.json --tolerance 5"};
  return {spec, run_bench};
}

}  // namespace kiln::cli
