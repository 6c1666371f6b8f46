// The module kiln._kiln: packages that run, kiln.Tensor, the table of settings. What needs the compiler goes through
// the command beside it (kiln/_command.py).
#include "errors.h"
#include "model.h"
#include "python_ops.h"
#include "settings_table.h"
#include "tensor.h"
#include "tree.h"

namespace nb = nanobind;

NB_MODULE(_kiln, module) {
  // Models and types live as long as the interpreter where somebody keeps them: no report at its end.
  nb::set_leak_warnings(false);
  module.attr("runtime_version") = kiln_version();
  module.attr("api_version") = kiln_api_version();
  module.attr("UPDATE_BORROW") = static_cast<int>(KILN_UPDATE_BORROW);
  module.attr("UPDATE_INACTIVE") = static_cast<int>(KILN_UPDATE_INACTIVE);
  module.attr("UPDATE_ALL") = static_cast<int>(KILN_UPDATE_ALL);
  module.def("set_error_classes", [](nb::handle classes) { kiln::python::set_error_classes(classes.ptr()); });
  module.def("unflatten", [](nb::handle tree, nb::handle leaves) {
    try {
      return nb::steal(kiln::python::unflatten_list(tree.ptr(), leaves.ptr()).release());
    } catch (const kiln::python::PythonError&) {
      nb::raise_python_error();
    }
  });
  kiln::python::bind_tensor(module);
  kiln::python::bind_model(module);
  kiln::python::bind_settings(module);
  kiln::python::bind_python_ops(module);
}
