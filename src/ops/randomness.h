// Which operators draw random numbers: two calls with equal arguments differ.
#pragma once
#include <string_view>

namespace kiln {

// By name, in place or not: "aten.rand_like.default", "aten.bernoulli_.float".
bool is_random_operator(std::string_view target);

}  // namespace kiln
