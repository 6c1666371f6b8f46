#include "torch_profiler.h"

#include "python_object.h"

namespace kiln::python {
namespace {

// torch.autograd.profiler's dictionary of names; nothing while torch is not imported. Kept: modules stay.
PyObject* profiler_names() {
  static PyObject* names = nullptr;
  if (!names)
    if (const Object module = imported_module("torch.autograd.profiler"))
      names = Py_XNewRef(PyModule_GetDict(module.get()));
  return names;
}

// The record of the step that is being run, on this thread.
thread_local PyObject* record = nullptr;

}  // namespace

bool torch_profiler_is_on() {
  static PyObject* name = PyUnicode_InternFromString("_is_profiler_enabled");
  PyObject* names = profiler_names();
  return names && PyDict_GetItemWithError(names, name) == Py_True;
}

// Called on the thread that called the model, without Python's lock.
kiln_hook_answer record_for_torch(void*, kiln_hook_when when, const kiln_step* step) {
  const PyGILState_STATE state = PyGILState_Ensure();
  if (when == KILN_BEFORE_STEP) {
    PyObject* type = profiler_names() ? PyDict_GetItemString(profiler_names(), "record_function") : nullptr;
    record = type ? PyObject_CallFunction(type, "s", step->name) : nullptr;
    if (record) Py_XDECREF(PyObject_CallMethod(record, "__enter__", nullptr));
  } else if (record) {
    Py_XDECREF(PyObject_CallMethod(record, "__exit__", "OOO", Py_None, Py_None, Py_None));
    Py_DECREF(record);
    record = nullptr;
  }
  PyErr_Clear();  // a profiler that cannot record is no reason to fail a run
  PyGILState_Release(state);
  return KILN_HOOK_CONTINUE;
}

}  // namespace kiln::python
