// Settings that were given and do nothing, because what they belong to is off.
#pragma once
#include <string>
#include <vector>

#include "base/settings.h"

namespace kiln {

// A note for each. Ask once everything is known: options, environment, the package's defaults. `minifies`: for a
// command that writes the minifier's directory anyway.
std::vector<std::string> idle_settings(const Settings& settings, bool minifies = false);

}  // namespace kiln
