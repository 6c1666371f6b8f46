// Inside of print.cpp and parse*.cpp: the words of the text form, once for both directions.
#pragma once
#include <array>
#include <optional>
#include <string_view>

#include "loops/loops.h"

namespace kiln::loops::text {

template <class E, size_t N>
struct Words {
  std::array<const char*, N> names;
  const char* name(E e) const { return names.at(static_cast<size_t>(e)); }
  std::optional<E> find(std::string_view word) const {
    for (size_t i = 0; i < N; ++i)
      if (word == names[i]) return static_cast<E>(i);
    return {};
  }
};

inline constexpr Words<BufferRole, 6> roles{{"input", "constant", "derived", "output", "temp", "scratch"}};
inline constexpr Words<AxisRole, 3> axis_roles{{"parallel", "reduce", "scan"}};
inline constexpr Words<Binding, 6> bindings{{"none", "item", "lane", "unroll", "serial", "kept"}};
inline constexpr Words<Tail, 3> tails{{"exact", "mask", "peel"}};
inline constexpr Words<StoreMode, 6> store_modes{{"plain", "add", "atomic_add", "min", "max", "prod"}};

inline bool name_char(char c, bool first) {
  bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  return letter || (!first && ((c >= '0' && c <= '9') || c == '.'));
}
// A name stands as it is where it reads as one word, and in quotes otherwise.
inline std::string name_text(std::string_view name) {
  bool plain = !name.empty();
  for (size_t i = 0; i < name.size() && plain; ++i) plain = name_char(name[i], i == 0);
  return plain && name != "none" ? std::string(name) : quote(name);
}

}  // namespace kiln::loops::text
