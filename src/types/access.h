// What a step does with a buffer. `write` promises that whatever is read later is written here: an update of a part is
// `update`, and inside a loop the memory of a buffer that starts with `write` need not survive an iteration.
#pragma once
#include <cstdint>

namespace kiln {

enum class Access : uint8_t { read = 1, write = 2, update = 3 };

constexpr bool reads(Access access) { return (static_cast<uint8_t>(access) & 1) != 0; }
constexpr bool writes(Access access) { return (static_cast<uint8_t>(access) & 2) != 0; }
constexpr Access operator|(Access a, Access b) {
  return static_cast<Access>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}

}  // namespace kiln
