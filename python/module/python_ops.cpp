#include "python_ops.h"

#include <dlfcn.h>

#include <string>
#include <vector>

#include "errors.h"
#include "kiln/custom_op.h"
#include "tensor.h"

namespace nb = nanobind;

namespace kiln::python {
namespace {

// kiln._python_ops.call(name, arguments, output), set when a package that needs it is loaded. Never freed: the
// interpreter may be gone before this module.
PyObject* python_call = nullptr;

// The memory of a call, for as long as it lasts: nothing is freed with it.
DLManagedTensorVersioned* borrowed(const DLTensor& tensor) {
  struct View {
    DLManagedTensorVersioned managed;
    std::vector<int64_t> sizes, strides;
  };
  auto* view = new View{};
  view->sizes.assign(tensor.shape, tensor.shape + tensor.ndim);
  view->strides.assign(static_cast<size_t>(tensor.ndim), 1);
  for (int32_t d = tensor.ndim; d-- > 0;) {
    const auto at = static_cast<size_t>(d);
    view->strides[at] = tensor.strides         ? tensor.strides[d]
                        : d + 1 == tensor.ndim ? 1
                                               : view->strides[at + 1] * tensor.shape[d + 1];
  }
  view->managed.version = {1, 1};
  view->managed.dl_tensor = tensor;
  view->managed.dl_tensor.shape = view->sizes.data();
  view->managed.dl_tensor.strides = view->strides.data();
  view->managed.manager_ctx = view;
  view->managed.deleter = [](DLManagedTensorVersioned* self) { delete static_cast<View*>(self->manager_ctx); };
  return &view->managed;
}

nb::object tensor_argument(const DLTensor* tensor) {
  if (!tensor) return nb::none();
  return nb::steal(wrap(borrowed(*tensor)).release());
}

nb::object argument(const kiln_op_call* call, int32_t arg) {
  const kiln_op_functions& functions = *call->functions;
  const int64_t count = functions.list_size(call, arg);
  switch (functions.arg_kind(call, arg)) {
    case KILN_ARG_TENSOR:
      return tensor_argument(functions.tensor(call, arg, 0));
    case KILN_ARG_TENSORS: {
      nb::list out;
      for (int64_t i = 0; i < count; ++i) out.append(tensor_argument(functions.tensor(call, arg, i)));
      return out;
    }
    case KILN_ARG_INT:
      return nb::int_(functions.integer(call, arg, 0));
    case KILN_ARG_INTS: {
      nb::list out;
      for (int64_t i = 0; i < count; ++i) out.append(functions.integer(call, arg, i));
      return out;
    }
    case KILN_ARG_FLOAT:
      return nb::float_(functions.floating(call, arg));
    case KILN_ARG_BOOL:
      return nb::bool_(functions.integer(call, arg, 0) != 0);
    case KILN_ARG_STRING:
      return nb::str(functions.string(call, arg));
    default:
      return nb::none();
  }
}

void call_python(const char* name, kiln_op_call* call) {
  nb::dict arguments;
  for (int32_t i = 0; i < call->functions->arg_count(call); ++i)
    arguments[call->functions->arg_name(call, i)] = argument(call, i);
  nb::object output = nb::cpp_function([call](int32_t index, nb::list sizes) -> nb::object {
    std::vector<int64_t> wanted;
    for (nb::handle size : sizes) wanted.push_back(nb::cast<int64_t>(size));
    const DLTensor* place = call->functions->output(call, index, static_cast<int32_t>(wanted.size()), wanted.data());
    return tensor_argument(place);
  });
  nb::borrow<nb::object>(python_call)(nb::str(name), arguments, output, call->functions->output_count(call));
}

int32_t run(const char* name, kiln_op_call* call) {
  const auto fail = [&](const std::string& why) {
    call->functions->fail(call, why.c_str());
    return 1;
  };
  if (!Py_IsInitialized() || !python_call)
    return fail(std::string("the operator ") + name + " is defined in Python, which does not run here");
  const PyGILState_STATE state = PyGILState_Ensure();
  int32_t status = 0;
  try {
    call_python(name, call);
  } catch (nb::python_error& error) {
    note_cause(error.value().ptr());
    status = fail(std::string("the operator ") + name + ", defined in Python, raised: " + error.what());
  } catch (const std::exception& error) {
    status = fail(error.what());
  }
  PyGILState_Release(state);
  return status;
}

}  // namespace
}  // namespace kiln::python

// What stub libraries look for. In the process's global names, see bind_python_ops.
extern "C" __attribute__((visibility("default"))) int32_t kiln_python_operator(const char* name, kiln_op_call* call) {
  return kiln::python::run(name, call);
}

namespace kiln::python {

void bind_python_ops(nb::module_& module) {
  module.def("set_python_call", [](nb::object call) {
    Py_XDECREF(python_call);
    python_call = call.release().ptr();
    // Python loads modules so that others do not see their names; this one is to be seen.
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&kiln_python_operator), &info) != 0)
      dlopen(info.dli_fname, RTLD_LAZY | RTLD_GLOBAL | RTLD_NOLOAD);
  });
}

}  // namespace kiln::python
