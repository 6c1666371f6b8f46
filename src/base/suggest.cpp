#include "base/suggest.h"

#include "base/text.h"

namespace kiln {

std::string nearest_hint(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string near = nearest(word, candidates);
  return near.empty() ? "" : str("; the nearest is '", near, "'");
}

}  // namespace kiln
