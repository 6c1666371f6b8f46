// Inputs that do not fit the plan, refused with the words of base/input_messages.h. Beside the codes there:
//   K0620 overlap   K0621 output tensor   K0622 no tensor that can be   K0684 a layout that cannot hold it
#pragma once
#include <string>
#include <vector>

#include "base/input_messages.h"
#include "kiln/kiln.h"
#include "runtime/bound_plan.h"

namespace kiln::runtime {

InputPlace input_place(const Program& program, size_t input, int64_t dim = -1);
// What the size that gives the symbol its value is of the program's symbols.
const format::ExprProgram* size_expression(const Program& program, const format::Symbol& symbol);
[[noreturn]] void refuse_count(const Program& program, size_t got);
[[noreturn]] void refuse_kind(const Program& program, size_t input, const char* expected, const kiln_value& got);
void check_constant(const Program& program, size_t input, const kiln_value& got);
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
