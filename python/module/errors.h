// What goes wrong, as Python's exceptions: one class per kind (kiln/errors.py), each with a stable code.
#pragma once
#include <string>

#include "kiln/kiln.h"
#include "python_object.h"

namespace kiln::python {

// Indices into the classes that kiln/errors.py hands over.
enum class ErrorClass { base, argument, input, file, run, unsupported, memory, stopped, bug, count };

void set_error_classes(PyObject* classes);  // a sequence in that order
[[noreturn]] void raise(ErrorClass kind, const char* code, const std::string& message);
// The same, with an exception (or nothing) as its __cause__.
[[noreturn]] void raise(ErrorClass kind, const char* code, const std::string& message, Object cause);
// What an operator defined in Python has raised: the cause of the failure that this thread's call will give.
void note_cause(PyObject* exception);
// The last failure of the C interface on this thread, unless `status` is KILN_OK.
void check(kiln_status status);

}  // namespace kiln::python
