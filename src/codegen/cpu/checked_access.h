// Printed kernels with every load and store checked: the same source, in which each access first asks whether the bytes
// it is about to touch lie in the buffer whose pointer it was given, and returns from the kernel where they do not. The
// kernel's context must be a kiln_checked_context (kiln/debug_library.h).
#pragma once
#include <string>

namespace kiln::codegen {

// `unit`: a translation unit as the backend makes it and the debug section keeps it. Throws K0645 for one in which a
// buffer is used in a way that is not known, so that what is not checked is not called checked.
std::string with_checked_accesses(const std::string& unit, int lanes);

}  // namespace kiln::codegen
