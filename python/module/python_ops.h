// Operators that are defined in Python: a package's stub library (kiln/_python_ops.py) finds kiln_python_operator in
// the process and calls it.
#pragma once
#include <nanobind/nanobind.h>

namespace kiln::python {

void bind_python_ops(nanobind::module_& module);

}  // namespace kiln::python
