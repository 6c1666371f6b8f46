// Whether bytes are a shared object of this machine with the functions it was made for. A compiler that ends without an
// error has not shown that it made one.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

// What is wrong with it; empty: nothing.
std::string shared_object_problem(std::string_view bytes, const std::vector<std::string>& functions);

}  // namespace kiln
