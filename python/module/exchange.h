// Tensors of Python as DLPack tensors, and back, without copying.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "kiln/kiln.h"
#include "python_object.h"

namespace kiln::python {

// Whose tensors a caller uses: results come back as the same. A later one wins where a call mixes them.
enum class Family : uint8_t { none, other, numpy, torch };

struct TensorType;  // what is known of a Python type (exchange.cpp)

// One tensor of the caller while a call lasts. Must not move: `tensor` may point into it.
class BorrowedTensor {
 public:
  BorrowedTensor() {}  // not defaulted: what a buffer would fill is not to be cleared for every call
  BorrowedTensor(const BorrowedTensor&) = delete;
  ~BorrowedTensor() { release(); }
  // False: the object is no tensor. Throws PythonError for one that cannot be used. `written`: runs write to it.
  // `name` says in errors which one it is.
  // `stream`: that the tensor's GPU is to have its values ready for, by DLPack's rules.
  bool borrow(PyObject* object, bool written, const char* name, void* stream = nullptr);
  // Of one that is borrowed for longer: whether it still has the memory and the layout that tensor() says.
  bool is_unmoved() const;
  // Throws where a result would be cut off from a computation of gradients; borrow() has looked, but both may change.
  void check_gradient(const char* name) const;
  // Whether tensor() is the caller's own memory, not a copy of what DLPack has no word for.
  bool in_place() const { return !copied_; }
  void release();
  DLTensor* tensor() { return &tensor_; }
  Family family() const;
  const TensorType* type() const { return type_; }
  PyObject* object() const { return object_.get(); }

 private:
  void take_view(PyObject* object, const char* name);
  bool has_same_buffer() const;
  bool take_buffer(PyObject* object, bool written, const char* name);
  bool take_capsule(PyObject* object, bool written, const char* name, void* stream);
  void take_copy(PyObject* object, bool written, const char* name, const char* why);

  DLTensor tensor_{};
  const TensorType* type_ = nullptr;
  Object object_;  // kept alive: the caller's containers may change while the interpreter's lock is released
  bool has_buffer_ = false, copied_ = false;
  Py_buffer buffer_;
  int64_t small_[8];                  // strides of a buffer, in elements
  std::unique_ptr<int64_t[]> large_;  // of one with more dimensions
  DLManagedTensorVersioned* managed_ = nullptr;
  DLManagedTensor* managed_old_ = nullptr;
};

// torch's current stream on a GPU; nullptr: the default one, also where torch is not used.
void* current_stream(int gpu);

// What results are made into: that of the caller's tensors.
struct ResultStyle {
  Family family = Family::none;
  const TensorType* type = nullptr;
  Object example;  // of family `other`: its namespace makes the results
  void see(const BorrowedTensor& tensor) {
    if (tensor.family() > family || !type) family = tensor.family(), type = tensor.type();
    if (family == Family::other && !example) example = Object::borrowed(tensor.object());
  }
  // A call without any tensor: torch's where torch is imported, else numpy's where numpy is.
  void choose_without_tensors();
};

// Takes ownership of the tensor.
Object to_python(DLManagedTensorVersioned* owned, const ResultStyle& style, size_t output);

}  // namespace kiln::python
