// The messages for inputs that do not fit, with PyTorch's wording where users look for it. Same codes and texts as the
// reference interpreter's (src/interp/bind_symbols.cpp).
//   K0610 number of inputs   K0611 kind      K0612 constant   K0613 device   K0614 dtype   K0615 number of dimensions
//   K0616 static size        K0617 range     K0618 size that follows from others            K0619 relation
//   K0620 overlap            K0621 output tensor             K0622 no tensor that can be
//   K0684 a layout that cannot hold it
#pragma once
#include <string>
#include <vector>

#include "runtime/bound_plan.h"

namespace kiln::runtime {

[[noreturn]] void refuse_input(const Program& program, const char* code, size_t input, const std::string& text);
[[noreturn]] void refuse_output(const Program& program, size_t output, const std::string& text);

// "s0 = 8 from input_handles[0] 'x' dim 0, u0 = 3"
std::string symbols_text(const Program& program, const std::vector<int32_t>& slots, const std::vector<int64_t>& values);

void check_symbol_ranges(const Program& program, const std::vector<int64_t>& symbols);  // early ones
void check_guard(const Program& program, const format::Guard& guard, const Layout& layout,
                 const std::vector<int64_t>& symbols);
// A size of a tensor input that is not what the plan's expression says.
[[noreturn]] void refuse_size(const Program& program, size_t input, size_t dim, int64_t expected, int64_t got,
                              const std::vector<int64_t>& symbols);

}  // namespace kiln::runtime
