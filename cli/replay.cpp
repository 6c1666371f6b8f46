#include "debug/replay.h"

#include <cstdio>

#include "base/error.h"
#include "command.h"
#include "console.h"
#include "debug/tell_package.h"
#include "json_output.h"
#include "values.h"

namespace kiln::cli {
namespace {

int run_replay(const ParsedOptions& options) {
  const Settings settings = settings_of(options, Phase::run);
  const std::string& path = options.positional[0];
  check_output_option(options);
  ReplayOptions replay_options;
  replay_options.settings = options.values("--config");
  replay_options.custom_op_libs = options.values("--custom-op-lib");
  const auto kernel = options.value("--kernel"), from = options.value("--from");
  if (kernel.has_value() != from.has_value())
    throw UsageError("--kernel and --from belong together: one kernel of a package, on values saved in a directory");
  if (const auto output = options.value("--output")) output_path(*output);
  const JsonOutput json(options);
  tell_notes(tell_of_package(path, settings));
  const Replay replay = kernel ? replay_kernel(path, *kernel, *from, replay_options)
                               : replay_bundle(path, replay_options, [](const std::string& about) {
                                   if (is_quiet()) return;
                                   // Out before the step runs: it may end this process.
                                   fputs(about.c_str(), stdout);
                                   fflush(stdout);
                                 });
  if (!json.instead_of_text()) fputs(replay.text().c_str(), stdout);
  deliver_outputs(replay.outputs, {}, options, json);
  Json root = json.document("replay");
  root.set("package", path), root.set("kernel", kernel ? Json(*kernel) : Json());
  root.set("fault", replay.fault), root.set("made_up_inputs", replay.made_up);
  Json compared = Json::array();
  for (const Replay::Compared& each : replay.compared) {
    Json one = Json::object();
    one.set("name", each.name), one.set("as_saved", each.difference.empty());
    one.set("difference", each.difference.empty() ? Json() : Json(each.difference));
    compared.push(std::move(one));
  }
  root.set("compared", std::move(compared));
  if (json.wanted()) root.set("outputs", outputs_json(replay.outputs, {}));
  json.write(root);
  return 0;
}

}  // namespace

Command replay_command() {
  CommandSpec spec;
  spec.name = "replay";
  spec.positional = "BUNDLE|PKG";
  spec.least = spec.most = 1;
  spec.summary = "runs a fault bundle, or one kernel on saved values";
  spec.details =
      "A fault bundle (KILN_FAULT_DIR) holds one step with its code and, unless they were left out, the values of its "
      "arguments; without them it runs on random numbers of the same shapes. With --kernel and --from one kernel of a "
      "package runs on the values that AOT_INDUCTOR_DEBUG_INTERMEDIATE_VALUE_PRINTER=1 saved, and its results are "
      "compared with the saved ones. All settings of phase R apply, for instance --config check_bounds=1.";
  spec.options = {
      {"--kernel", "", "K", "the kernel's name", false},
      {"--from", "", "DIR", "where mode 1 of the value printer saved", false, FileUse::read},
      {"--output", "-o", "OUT", "writes what the step wrote to this file", false, FileUse::written},
      JsonOutput::option(),
      {"--custom-op-lib", "", "L", "shared library with custom operators", true, FileUse::read},
  };
  spec.examples = {"kiln replay faults/fault_cpp_fused_log_0_4711_0.kiln.pt2",
                   "kiln replay model.kiln.pt2 --kernel cpp_fused_add_0 --from saved"};
  return {spec, run_replay};
}

}  // namespace kiln::cli
