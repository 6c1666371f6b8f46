// What calls of the C interface from Python have in common.
#pragma once
#include <string>

#include "python_object.h"

namespace kiln::python {

// Lets other Python threads work meanwhile.
class WithoutLock {
 public:
  WithoutLock() : state_(PyEval_SaveThread()) {}
  ~WithoutLock() { PyEval_RestoreThread(state_); }
  WithoutLock(const WithoutLock&) = delete;

 private:
  PyThreadState* state_;
};

template <typename T>
T sized() {
  T out{};
  out.struct_size = sizeof out;
  return out;
}

inline std::string utf8(PyObject* text) {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text, &size);
  require(bytes != nullptr);
  return {bytes, static_cast<size_t>(size)};
}

}  // namespace kiln::python
