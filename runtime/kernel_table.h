// A plan against the code that it was loaded with: a package whose two parts do not belong together is refused before
// a kernel is called with lists of the wrong length.
#pragma once
#include <string>

#include "package/format.h"
#include "runtime/code_loader.h"

namespace kiln::runtime {

// Throws K0525, naming the kernel or the step that does not fit. `label` names the code in messages.
void check_kernels(const format::Plan& plan, const CodeModule& code, const std::string& label);

}  // namespace kiln::runtime
