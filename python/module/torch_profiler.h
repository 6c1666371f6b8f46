// Kernels by their names in torch.profiler, where torch is there and its profiler is on.
#pragma once
#include "kiln/kiln.h"

namespace kiln::python {

bool torch_profiler_is_on();  // with Python's lock held
kiln_hook_answer record_for_torch(void* user, kiln_hook_when when, const kiln_step* step);

}  // namespace kiln::python
