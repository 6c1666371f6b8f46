// A call that is made again and again with the same tensors: what a call finds out about its arguments is found once,
// and results come into the same memory each time, as with a recorded CUDA graph.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "model.h"

namespace kiln::python {

class BoundCall {
 public:
  // `object` is the model's, and is kept. Nothing runs yet.
  BoundCall(PyObject* object, Model& model, PyObject* args, PyObject* kwargs);
  BoundCall(const BoundCall&) = delete;
  Object call();

 private:
  struct Bound {
    BorrowedTensor tensor;
    std::vector<int64_t> layout;  // its sizes and strides: the tensor's own may change
    std::string name;
  };
  void keep(Bound& bound, PyObject* object, bool written, const std::string& name);
  void check_unmoved(Bound* bound, size_t count) const;
  void first_call();
  Object result() const;

  Object object_;
  Model& model_;
  std::vector<Object> leaves_;
  std::unique_ptr<Bound[]> inputs_, outputs_;
  std::vector<kiln_value> values_, results_;
  std::vector<Object> tensors_;  // the results, once they are there
  bool wait_ = true, called_ = false, running_ = false;
};

}  // namespace kiln::python
