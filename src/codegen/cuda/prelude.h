// What stands in front of CUDA kernels: what the language and its compiler lack of the plain prelude's needs, the
// arguments of a launch, what threads of a team do together. Everything else (casts, narrow floats, integer division,
// random numbers) is the plain prelude of codegen/c_family in its scalar form: one text, one meaning. No header is
// included.
#pragma once
#include <string>

namespace kiln::codegen {

// A whole unit: preludes and kernels.
std::string cuda_unit(const std::string& kernels);

}  // namespace kiln::codegen
