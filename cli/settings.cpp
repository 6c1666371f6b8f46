#include "base/settings.h"

#include <cstdio>

#include "command.h"

namespace kiln::cli {

Settings settings_of(const ParsedOptions& options, Phase phase) {
  Settings settings(phase);
  for (const std::string& assignment : options.values("--config")) settings.set(assignment);
  settings.read_environment();
  for (const std::string& note : settings.notes()) fprintf(stderr, "note: %s\n", note.c_str());
  return settings;
}

}  // namespace kiln::cli
