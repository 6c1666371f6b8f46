#include "errors.h"

#include <utility>

namespace kiln::python {
namespace {

// Never freed: the interpreter is gone before this module's own memory.
Object* classes() {
  static auto* const list = new Object[static_cast<size_t>(ErrorClass::count)];
  return list;
}

ErrorClass class_of(kiln_status status) {
  switch (status) {
    case KILN_ERROR_ARGUMENT:
      return ErrorClass::argument;
    case KILN_ERROR_INPUT:
      return ErrorClass::input;
    case KILN_ERROR_FILE:
      return ErrorClass::file;
    case KILN_ERROR_RUN:
      return ErrorClass::run;
    case KILN_ERROR_UNSUPPORTED:
      return ErrorClass::unsupported;
    case KILN_ERROR_MEMORY:
      return ErrorClass::memory;
    case KILN_ERROR_STOPPED:
      return ErrorClass::stopped;
    default:
      return ErrorClass::bug;
  }
}

// What an operator defined in Python raised last on this thread, until the error of its call takes it (a reference).
thread_local PyObject* raised_by_operator = nullptr;

}  // namespace

void note_cause(PyObject* exception) {
  Py_XINCREF(exception);
  Py_XDECREF(std::exchange(raised_by_operator, exception));
}

void set_error_classes(PyObject* sequence) {
  for (size_t i = 0; i < static_cast<size_t>(ErrorClass::count); ++i)
    classes()[i] = Object::checked(PySequence_GetItem(sequence, static_cast<Py_ssize_t>(i)));
}

void raise(ErrorClass kind, const char* code, const std::string& message) { raise(kind, code, message, Object()); }

void raise(ErrorClass kind, const char* code, const std::string& message, Object cause) {
  const Object& type = classes()[static_cast<size_t>(kind)];
  PyObject* given = type ? type.get() : PyExc_RuntimeError;
  const Object text =
      Object::checked(PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "surrogateescape"));
  const Object error = Object::checked(PyObject_CallFunctionObjArgs(given, text.get(), nullptr));
  if (code && *code) {
    const Object code_text = Object::checked(PyUnicode_FromString(code));
    require(PyObject_SetAttrString(error.get(), "code", code_text.get()) == 0);
  }
  if (cause) PyException_SetCause(error.get(), cause.release());
  PyErr_SetObject(given, error.get());
  throw PythonError();
}

void check(kiln_status status) {
  if (status == KILN_OK) return;
  const std::string code = kiln_last_error_code();
  // An operator defined in Python has raised: what it raised is the cause (python_ops.cpp).
  Object cause = Object::owned(std::exchange(raised_by_operator, nullptr));
  raise(class_of(status), code.c_str(), kiln_last_error(), code == "K0632" ? std::move(cause) : Object());
}

}  // namespace kiln::python
