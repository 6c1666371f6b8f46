#include "debug/profile.h"

#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "command.h"
#include "console.h"
#include "json_output.h"
#include "package_inputs.h"
#include "progress_clock.h"
#include "thread_options.h"
#include "watched_package.h"
#include "weights_option.h"

namespace kiln::cli {
namespace {

void check_sort_column(const std::string& column) {
  try {
    require_profile_column(column);
  } catch (const Error& error) {
    throw UsageError(error.message());
  }
}

int run_profile(const ParsedOptions& options) {
  const Settings settings = settings_of(options, Phase::run);
  const std::string& path = options.positional[0];
  ProfileOptions profile_options;
  profile_options.settings = run_settings(options, settings);
  profile_options.custom_op_libs = options.values("--custom-op-lib");
  profile_options.weights = given_weights(path, options);
  profile_options.sort_by = options.value_or("--sort-by", "time");
  check_sort_column(profile_options.sort_by);
  profile_options.runs = static_cast<int>(options.integer("--runs", 1, 1'000'000).value_or(20));
  const auto trace = options.value("--trace");
  const std::string trace_place = trace ? output_path(*trace) : "";
  const JsonOutput json(options);
  WatchedPackage watched(path, settings, options);
  const std::vector<Datum> inputs = given_or_random_inputs(path, options).inputs;
  watched.begin(inputs);
  profile_options.fault = [&](const std::string& text) { watched.fault(text); };
  ProgressClock progress;
  profile_options.stage = [&](const std::string& stage) { progress.begin(stage); };
  const Profile result = [&] {
    try {
      return watched.watch([&] { return profile(path, inputs, profile_options); });
    } catch (const Error&) {
      progress.stop();
      note_random_inputs(options);
      note_kept_buffers(path, "--runs N");
      throw;
    }
  }();
  progress.stop();
  if (!json.instead_of_text()) fputs(is_quiet() ? profile_line(result).c_str() : profile_table(result).c_str(), stdout);
  if (trace) {
    write_file_atomic(trace_place, chrome_trace(result));
    if (!is_quiet()) printf("trace of the last run written to %s\n", trace->c_str());
  }
  Json root = json.document("profile");
  root.set("package", path);
  json.add(root, profile_json(result));
  json.write(root);
  return 0;
}

}  // namespace

Command profile_command() {
  CommandSpec spec;
  spec.name = "profile";
  spec.positional = "PKG";
  spec.least = spec.most = 1;
  spec.summary = "times every kernel";
  spec.details =
      "Per kernel function: calls and time of a run, its share, bytes reached, floating-point operations (counted from "
      "the loops of the debug section), what it achieves and its share of what this machine was measured to do "
      "(products of bf16 by its instructions for "
      "those; all else by f32 multiply-adds); where "
      "several modules call it, a line for each. The trace opens in chrome://tracing and Perfetto.";
  spec.options = {
      {"--inputs", "", "F", "the inputs: a list in the model's order, or by name (default: the samples)", false,
       FileUse::read},
  };
  for (const OptionSpec& option : random_input_options()) spec.options.push_back(option);
  const std::vector<OptionSpec> more = {
      threads_option(),
      {"--sort-by", "", "C", "time, calls, share, bytes, flops, gflops, gbs, limit, name or order", false},
      {"--runs", "", "N", "runs without the profiler and with it, in turns, to take medians of (20)", false},
      {"--trace", "", "OUT.json", "writes a timeline of the last run", false, FileUse::written},
      JsonOutput::option(),
      weights_option(),
      {"--custom-op-lib", "", "L", "shared library with custom operators, beside those in the package", true,
       FileUse::read},
  };
  spec.options.insert(spec.options.end(), more.begin(), more.end());
  spec.examples = {"kiln profile model.kiln.pt2", "kiln profile model.kiln.pt2 --shape s0=32 --threads 1",
                   "kiln profile model.kiln.pt2 --sort-by bytes --trace run.json"};
  return {spec, run_profile};
}

}  // namespace kiln::cli
