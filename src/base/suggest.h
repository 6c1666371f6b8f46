// "Did you mean", as the end of a message.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

// "; the nearest is 'X'", or nothing when no candidate is near the word.
std::string nearest_hint(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace kiln
