// A number and what it counts, for people: "1 input", "2 inputs".
#pragma once
#include "base/text.h"

namespace kiln {

inline std::string counted(uint64_t number, std::string_view one) {
  return str(number, " ", one, number == 1 ? "" : "s");
}

}  // namespace kiln
