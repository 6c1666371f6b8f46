#include "driver/inspect.h"

#include <cstdio>

#include "command.h"

namespace kiln::cli {
namespace {

int inspect(const ParsedOptions& options) {
  settings_of(options, Phase::both);
  fputs(inspect_file(options.positional[0]).c_str(), stdout);
  return 0;
}

}  // namespace

Command inspect_command() {
  CommandSpec spec;
  spec.name = "inspect";
  spec.positional = "FILE";
  spec.least = spec.most = 1;
  spec.summary = "shows what is in a model or a package";
  spec.details =
      "Of a model: inputs, outputs, symbols with ranges, guards with reasons, weights, graph. Of a package also the "
      "steps of "
      "a run with the operators and source lines that each kernel comes from.";
  spec.examples = {"kiln inspect model.pt2", "kiln inspect model.kiln.pt2"};
  return {spec, inspect};
}

}  // namespace kiln::cli
