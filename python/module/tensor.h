// kiln.Tensor: a result for those who have neither numpy nor torch. It speaks DLPack and the buffer protocol.
#pragma once
#include <nanobind/nanobind.h>

#include <string>

#include "kiln/kiln.h"
#include "python_object.h"

namespace kiln::python {

class Tensor {
 public:
  explicit Tensor(DLManagedTensorVersioned* owned) : owned_(owned) {}
  Tensor(const Tensor&) = delete;
  ~Tensor() {
    if (owned_ && owned_->deleter) owned_->deleter(owned_);
  }
  const DLTensor& dl() const { return owned_->dl_tensor; }

 private:
  DLManagedTensorVersioned* owned_;
};

std::string dtype_name(DLDataType dtype);  // "float32"; "" where there is no name
bool dtype_of_name(const std::string& name, DLDataType& out);
size_t element_bytes(DLDataType dtype);
int64_t element_count(const DLTensor& tensor);
bool is_row_major(const DLTensor& tensor);
const char* buffer_format(DLDataType dtype);  // of the struct module; nullptr: it has none
bool dtype_of_format(const char* format, Py_ssize_t item_bytes, DLDataType& out);

// A new tensor with memory of its own, row-major.
DLManagedTensorVersioned* allocate(DLDataType dtype, const int64_t* sizes, int32_t rank);
Object wrap(DLManagedTensorVersioned* owned);  // as kiln.Tensor
const Tensor* tensor_of(PyObject* object);     // nullptr: it is none
void bind_tensor(nanobind::module_& module);

}  // namespace kiln::python
