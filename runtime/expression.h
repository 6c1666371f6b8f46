// Evaluates the plan's expressions. A checked plan never makes this read outside its stack; arithmetic that leaves
// int64, division by zero and square roots of negatives are reported, not wrapped.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "package/format.h"

namespace kiln::runtime {

enum class ExprResult : uint8_t { ok, overflow, division_by_zero, not_a_number };
const char* expr_result_text(ExprResult result);

// `symbols`: one value per slot of the plan; floats as bit patterns.
ExprResult evaluate(const format::ExprProgram& program, std::span<const int64_t> symbols, int64_t& out);

}  // namespace kiln::runtime
