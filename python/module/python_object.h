// Python objects in C++: references that count themselves, and an exception that means "a Python error is set".
// Only functions of the limited API are used, so that one module serves every Python from 3.12 on.
#pragma once
#include <Python.h>

#include <utility>

namespace kiln::python {

// A Python exception is set; whoever catches this returns NULL to Python.
struct PythonError {};

class Object {
 public:
  Object() = default;
  Object(const Object& other) : pointer_(other.pointer_) { Py_XINCREF(pointer_); }
  Object(Object&& other) noexcept : pointer_(std::exchange(other.pointer_, nullptr)) {}
  Object& operator=(Object other) noexcept {
    std::swap(pointer_, other.pointer_);
    return *this;
  }
  ~Object() { Py_XDECREF(pointer_); }
  static Object borrowed(PyObject* pointer) {
    Py_XINCREF(pointer);
    return owned(pointer);
  }
  static Object owned(PyObject* pointer) {
    Object object;
    object.pointer_ = pointer;
    return object;
  }
  // Of a call that gives a new reference, or NULL with an exception set.
  static Object checked(PyObject* pointer) {
    if (!pointer) throw PythonError();
    return owned(pointer);
  }
  PyObject* get() const { return pointer_; }
  PyObject* release() { return std::exchange(pointer_, nullptr); }
  explicit operator bool() const { return pointer_ != nullptr; }

 private:
  PyObject* pointer_ = nullptr;
};

inline void require(bool done) {
  if (!done) throw PythonError();
}

// The attribute, or nothing where there is none.
inline Object find_attribute(PyObject* object, const char* name) {
  Object out = Object::owned(PyObject_GetAttrString(object, name));
  if (!out) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw PythonError();
    PyErr_Clear();
  }
  return out;
}

// A module that somebody has imported already, or nothing: this never imports one.
inline Object imported_module(const char* name) {
  PyObject* modules = PyImport_GetModuleDict();
  return Object::borrowed(modules ? PyDict_GetItemString(modules, name) : nullptr);
}

}  // namespace kiln::python
