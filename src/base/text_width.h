// How wide a text is on a terminal.
#pragma once
#include <algorithm>
#include <string_view>

namespace kiln {

// Characters of UTF-8, not bytes: "µs" has three of these.
inline size_t text_width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace kiln
