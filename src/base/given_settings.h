// What a user gave of the settings, as text that reads back: for the package, whose debug section and runs keep it, and
// for repro files.
#pragma once
#include "base/settings.h"

namespace kiln {

struct GivenSetting {
  const Setting* setting;
  std::string text;
};
// What --config and the environment gave, as text that reads back.
std::vector<GivenSetting> given_settings(const Settings& settings);
// What they say for compiling, as "key=value", without what is about the machine; the debug section keeps it, so that a
// failure of a package can be looked for in a program compiled the same way.
std::vector<std::string> compile_assignments(const Settings& settings);
// What the settings say for loading and running, as "key=value".
std::vector<std::string> run_assignments(const Settings& settings);

}  // namespace kiln
