#include <cstdio>

#include "base/error.h"
#include "command.h"
#include "compile/pipeline.h"

namespace kiln::cli {
namespace {

int print_passes(const ParsedOptions& options) {
  settings_of_reader(options, "passes");
  std::string stage;
  for (const PassListing& pass : list_passes()) {
    if (pass.stage != stage) printf("%s%s\n", stage.empty() ? "" : "\n", pass.stage.c_str());
    stage = pass.stage;
    printf("  %-24s %s\n", pass.name.c_str(), pass.why.c_str());
  }
  return 0;
}

}  // namespace

void check_pass_name(const std::string& name) {
  try {
    require_pass(name);
  } catch (const Error& error) {
    throw UsageError(error.message());
  }
}

Command passes_command() {
  CommandSpec spec;
  spec.name = "passes";
  spec.summary = "lists the passes of the compiler, in order, with the reason for each one's place";
  spec.details = "The names are those of --dump-after, --stop-after and of the key disable_pass.";
  spec.examples = {"kiln passes"};
  return {spec, print_passes};
}

}  // namespace kiln::cli
