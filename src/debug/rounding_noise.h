// What rounding may do to the results of a program: the fp64 reference again, with every float input and every
// operator's float results off by a random part of their dtype's epsilon. A program that magnifies rounding (a norm of
// nearly equal numbers, long chains) shows it here, also where the operators of the plain reference round only once.
#pragma once
#include "executable/executable.h"

namespace kiln::minify {

// One run; every `sample` has other random numbers. Throws what the reference throws.
CallResult rounded_result(const Program& program, const std::vector<std::string>& custom_op_libs, int sample);

}  // namespace kiln::minify
