// The table of settings (src/base/settings.h) for kiln/config.py.
#pragma once
#include <nanobind/nanobind.h>

namespace kiln::python {

void bind_settings(nanobind::module_& module);

}  // namespace kiln::python
