#include "base/settings.h"

#include <cstdio>
#include <cstdlib>

#include "command.h"

namespace kiln::cli {

Settings settings_of(const ParsedOptions& options, Phase phase) {
  Settings settings(phase);
  for (const std::string& assignment : options.values("--config")) settings.set(assignment);
  settings.read_environment();
  // Errors may be made anywhere in the process, by the runtime's too: the environment is what all of it sees.
  if (settings.get_bool("TORCH_SHOW_CPP_STACKTRACES")) setenv("TORCH_SHOW_CPP_STACKTRACES", "1", 1);
  for (const std::string& note : settings.notes()) fprintf(stderr, "note: %s\n", note.c_str());
  return settings;
}

}  // namespace kiln::cli
