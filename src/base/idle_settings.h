// Settings that were given and do nothing, because what they belong to is off.
#pragma once
#include <string>
#include <vector>

#include "base/settings.h"

namespace kiln {

// A note for each. Ask once everything is known: options, environment, the package's defaults.
std::vector<std::string> idle_settings(const Settings& settings);

}  // namespace kiln
