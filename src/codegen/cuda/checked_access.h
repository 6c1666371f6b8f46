// Printed CUDA kernels with every access to a buffer checked: pointers to buffers become values that know where their
// buffer begins and ends. An access outside is not made (a load gives 0), and the first one is kept in the error slot;
// the kernel goes on, so that its barriers are met by all threads.
#pragma once
#include <string>

namespace kiln::codegen {

// `unit`: a translation unit as the backend makes it and the debug section keeps it. Behind its integers, of which
// there is one at least, such a kernel is given the bytes of each buffer. Throws K0645 for one that is not known.
std::string cuda_with_checked_accesses(const std::string& unit);

}  // namespace kiln::codegen
