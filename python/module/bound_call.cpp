#include "bound_call.h"

#include <cstring>

#include "errors.h"
#include "interface_calls.h"

namespace kiln::python {
namespace {

[[noreturn]] void refuse(const std::string& why) { raise(ErrorClass::input, "K0709", why); }

class WhileRunning {
 public:
  explicit WhileRunning(bool& running) : running_(running) {
    if (running_) refuse("the bound call is running in another thread; bind one for each thread");
    running_ = true;
  }
  WhileRunning(const WhileRunning&) = delete;
  ~WhileRunning() { running_ = false; }

 private:
  bool& running_;
};

}  // namespace

BoundCall::BoundCall(PyObject* object, Model& model, PyObject* args, PyObject* kwargs)
    : object_(Object::borrowed(object)), model_(model), leaves_(model.leaves_of(args, kwargs)) {
  for (size_t i = 0; i < model.output_count_; ++i) {
    auto spec = sized<kiln_spec>();
    check(kiln_output_spec(model.model(), i, &spec));
    if (spec.kind != KILN_TENSOR) refuse("output " + std::to_string(i) + " is no tensor: the model cannot be bound");
  }
  inputs_ = std::make_unique<Bound[]>(leaves_.size());
  outputs_ = std::make_unique<Bound[]>(model.output_count_);
  values_.resize(leaves_.size());
  results_.resize(model.output_count_);
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const Model::Input& input = model.inputs_[i];
    if (model.take_number(leaves_[i].get(), i, values_[i])) continue;
    keep(inputs_[i], leaves_[i].get(), input.mutated, input.name);
    values_[i].kind = KILN_TENSOR;
    values_[i].as.tensor = inputs_[i].tensor.tensor();
    if (inputs_[i].tensor.family() == Family::torch) wait_ = false;
  }
}

void BoundCall::keep(Bound& bound, PyObject* object, bool written, const std::string& name) {
  bound.name = name;
  bound.tensor.release();  // of a first call that failed after this
  const bool is_tensor = bound.tensor.borrow(object, written, bound.name.c_str());
  if (!is_tensor || bound.tensor.family() == Family::other)
    refuse("'" + name + "' cannot be bound: it is no tensor of torch or numpy");
  if (!bound.tensor.in_place())
    refuse("'" + name + "' cannot be bound: its values are not in its own memory as they are");
  DLTensor& tensor = *bound.tensor.tensor();
  const auto rank = static_cast<size_t>(tensor.ndim);
  bound.layout.assign(tensor.shape, tensor.shape + rank);
  if (tensor.strides) bound.layout.insert(bound.layout.end(), tensor.strides, tensor.strides + rank);
  tensor.shape = bound.layout.data();
  if (tensor.strides) tensor.strides = bound.layout.data() + rank;
}

// A pointer that was right when the call was bound is never used after its tensor has gone elsewhere.
void BoundCall::check_unmoved(Bound* bound, size_t count) const {
  for (size_t i = 0; i < count; ++i)
    if (bound[i].tensor.object() && !bound[i].tensor.is_unmoved())
      refuse("'" + bound[i].name + "' has other memory or another layout than when it was bound; bind the call again");
}

void BoundCall::first_call() {
  std::vector<PyObject*> pointers;
  for (const Object& leaf : leaves_) pointers.push_back(leaf.get());
  tensors_ = model_.run(pointers.data(), pointers.size());
  for (size_t i = 0; i < tensors_.size(); ++i) {
    keep(outputs_[i], tensors_[i].get(), true, "output " + std::to_string(i));
    results_[i].kind = KILN_TENSOR;
    results_[i].as.tensor = outputs_[i].tensor.tensor();
  }
  called_ = true;
}

// Lists and dicts are made anew for each call: what a caller does to one is not in the next.
Object BoundCall::result() const {
  if (model_.out_.kind == Tree::Kind::leaf) return tensors_[0];
  std::vector<Object> results = tensors_;
  return model_.structured(results);
}

Object BoundCall::call() {
  const WhileRunning alone(running_);
  check_unmoved(inputs_.get(), leaves_.size());
  if (!called_) {
    first_call();
    return result();
  }
  for (size_t i = 0; i < leaves_.size(); ++i) inputs_[i].tensor.check_gradient(inputs_[i].name.c_str());
  check_unmoved(outputs_.get(), results_.size());
  void* const stream = model_.gpu_ >= 0 ? current_stream(model_.gpu_) : nullptr;
  const kiln_status status = model_.run_unlocked(values_.data(), values_.size(), results_.data(), stream, wait_);
  if (status != KILN_OK && std::strcmp(kiln_last_error_code(), "K0621") == 0)
    raise(ErrorClass::input, "K0621",
          std::string(kiln_last_error()) + "\n  a bound call keeps the results of its first call, and their sizes");
  check(status);
  return result();
}

}  // namespace kiln::python
