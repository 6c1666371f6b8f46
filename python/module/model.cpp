#include "model.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "base/standard.h"
#include "base/suggest.h"
#include "base/text.h"
#include "errors.h"
#include "interface_calls.h"
#include "tensor.h"
#include "torch_profiler.h"

namespace kiln::python {
namespace {

// CUDA's name for the stream that has none: given by this name it is one that the caller orders its work by, and a call
// on it is not waited for.
void* const default_stream = reinterpret_cast<void*>(1);

// Arrays of a few on the stack, of more on the heap: nearly every call has few tensors.
template <typename T, size_t few>
class Some {
 public:
  explicit Some(size_t count) : many_(count > few ? std::make_unique<T[]>(count) : nullptr) {}
  T* get() { return many_ ? many_.get() : few_; }
  T& operator[](size_t i) { return get()[i]; }

 private:
  T few_[few]{};
  std::unique_ptr<T[]> many_;
};

// A number, None or text as the program takes it. Numbers of numpy's kinds count as what they are.
bool take_plain(PyObject* object, int32_t expected, kiln_value& out) {
  if (object == Py_None) {
    out.kind = KILN_NONE;
  } else if (PyBool_Check(object)) {
    out.kind = KILN_BOOL;
    out.as.boolean = object == Py_True;
  } else if (PyLong_Check(object) || (expected == KILN_INT && PyIndex_Check(object))) {
    const Object number = Object::checked(PyNumber_Index(object));
    int overflow = 0;
    out.kind = KILN_INT;
    out.as.integer = PyLong_AsLongLongAndOverflow(number.get(), &overflow);
    if (overflow) raise(ErrorClass::input, "K0703", "an integer of the call is beyond 64 bits");
  } else if (PyFloat_Check(object)) {
    out.kind = KILN_FLOAT;
    out.as.floating = PyFloat_AsDouble(object);
  } else if (PyUnicode_Check(object)) {
    out.kind = KILN_STRING;
    out.as.string = PyUnicode_AsUTF8AndSize(object, nullptr);
    require(out.as.string != nullptr);
  } else {
    return false;
  }
  return true;
}

Object plain_output(const kiln_value& value) {
  switch (value.kind) {
    case KILN_INT:
      return Object::checked(PyLong_FromLongLong(value.as.integer));
    case KILN_FLOAT:
      return Object::checked(PyFloat_FromDouble(value.as.floating));
    case KILN_BOOL:
      return Object::checked(PyBool_FromLong(value.as.boolean));
    case KILN_STRING:
      return Object::checked(PyUnicode_FromString(value.as.string));
    default:
      return Object::borrowed(Py_None);
  }
}

// What a run gave, until it is Python's.
struct Outputs {
  explicit Outputs(size_t n) : values(n), count(n) {}
  ~Outputs() {
    for (size_t i = 0; i < count; ++i) kiln_value_clear(&values[i]);
  }
  Some<kiln_value, 8> values;
  size_t count;
};

size_t all_leaves(const Tree& tree) {
  for (const Tree& child : tree.children)
    if (child.kind != Tree::Kind::leaf) return SIZE_MAX;
  return tree.children.size();
}

}  // namespace

Model::Model(const std::string& path, const std::vector<std::string>& settings, int device_index,
             const std::vector<std::string>& custom_op_libraries) {
  std::vector<const char*> texts, libraries;
  for (const std::string& text : settings) texts.push_back(text.c_str());
  for (const std::string& text : custom_op_libraries) libraries.push_back(text.c_str());
  auto options = sized<kiln_load_options>();
  options.settings = texts.data();
  options.setting_count = texts.size();
  options.device_index = device_index;
  options.custom_op_libraries = libraries.data();
  options.custom_op_library_count = libraries.size();
  kiln_status status;
  {
    const WithoutLock unlocked;
    status = kiln_load(path.c_str(), &options, &model_);
    if (status == KILN_OK) status = kiln_instance_create(model_, &instance_);
  }
  if (status != KILN_OK) {
    kiln_model_free(model_);
    model_ = nullptr;
  }
  check(status);
  for (size_t i = 0; i < kiln_input_count(model_); ++i) {
    auto spec = sized<kiln_spec>();
    check(kiln_input_spec(model_, i, &spec));
    inputs_.push_back({spec.name, spec.kind, spec.mutated != 0});
    if (spec.kind == KILN_TENSOR && spec.device == kDLCUDA) gpu_ = std::max(device_index, 0);
  }
  output_count_ = kiln_output_count(model_);
  for (size_t i = 0; i < output_count_; ++i) {
    auto spec = sized<kiln_spec>();
    check(kiln_output_spec(model_, i, &spec));
    if (spec.kind == KILN_TENSOR && spec.device == kDLCUDA) gpu_ = std::max(device_index, 0);
  }
}

Model::~Model() {
  kiln_instance_free(instance_);
  kiln_model_free(model_);
}

void Model::set_structure(PyObject* in_tree, PyObject* out_tree, PyObject* names, PyObject* constants) {
  Tree in = read_tree(in_tree);
  out_ = read_tree(out_tree);
  if (in.children.size() != 2 || in.children[1].kind != Tree::Kind::dict || leaf_count(in) != inputs_.size() ||
      leaf_count(out_) != output_count_)
    raise(ErrorClass::file, "K0700", "the package's description of its arguments does not fit its plan");
  args_ = std::move(in.children[0]);
  kwargs_ = std::move(in.children[1]);
  argument_names_.clear();
  const Py_ssize_t count = PySequence_Size(names);
  require(count >= 0);
  for (Py_ssize_t i = 0; i < count; ++i) argument_names_.push_back(Object::checked(PySequence_GetItem(names, i)));
  constants_ = Object::borrowed(constants);
  plain_args_ = kwargs_.children.empty() ? all_leaves(args_) : SIZE_MAX;
  structured_ = true;
}

// Arguments that always have one value may be left out.
bool Model::fill_constants(const Tree& tree, size_t first, std::vector<Object>& leaves) const {
  std::vector<Object> found;
  for (size_t i = 0; i < leaf_count(tree); ++i) {
    const Object place = Object::checked(PyLong_FromSize_t(first + i));
    PyObject* value = PyDict_GetItemWithError(constants_.get(), place.get());
    if (!value) return false;
    found.push_back(Object::borrowed(value));
  }
  for (Object& value : found) leaves.push_back(std::move(value));
  return true;
}

namespace {

// For a message about an argument that is missing.
std::string given_by_name(PyObject* kwargs) {
  std::vector<std::string> names;
  const Object keys = Object::checked(kwargs ? PyDict_Keys(kwargs) : PyList_New(0));
  for (Py_ssize_t i = 0; i < PyList_Size(keys.get()); ++i) names.push_back(utf8(PyList_GetItem(keys.get(), i)));
  return names.empty() ? "" : "; by name there is: " + join(names, ", ");
}

}  // namespace

void Model::bind_arguments(PyObject* args, PyObject* kwargs, std::vector<Object>& leaves) const {
  const auto given = static_cast<size_t>(PyTuple_Size(args));
  const size_t expected = args_.children.size();
  if (given > expected)
    raise(ErrorClass::input, "K0701",
          "the model takes " + std::to_string(expected) + " positional argument" + (expected == 1 ? "" : "s") +
              ", as in the export, but " + std::to_string(given) + " were given");
  size_t used = 0;
  const auto take_keyword = [&](PyObject* name) -> PyObject* {
    if (!kwargs) return nullptr;
    PyObject* value = PyDict_GetItemWithError(kwargs, name);
    require(value || !PyErr_Occurred());
    used += value ? 1 : 0;
    return value;
  };
  const auto take = [&](const Tree& tree, PyObject* value, const std::string& name) {
    const size_t first = leaves.size();
    if (value) return flatten(tree, value, name, leaves);
    if (!fill_constants(tree, first, leaves))
      raise(ErrorClass::input, "K0701", "the argument '" + name + "' is missing" + given_by_name(kwargs));
  };
  for (size_t i = 0; i < expected; ++i) {
    const bool named = i < argument_names_.size();
    PyObject* value = i < given ? PyTuple_GetItem(args, static_cast<Py_ssize_t>(i)) : nullptr;
    if (!value && named) value = take_keyword(argument_names_[i].get());
    take(args_.children[i], value, named ? utf8(argument_names_[i].get()) : "argument " + std::to_string(i));
  }
  for (size_t i = 0; i < kwargs_.children.size(); ++i)
    take(kwargs_.children[i], take_keyword(kwargs_.keys[i].get()), utf8(kwargs_.keys[i].get()));
  if (!kwargs || used == static_cast<size_t>(PyDict_Size(kwargs))) return;
  std::vector<std::string> takes;
  for (size_t i = 0; i < expected && i < argument_names_.size(); ++i) takes.push_back(utf8(argument_names_[i].get()));
  for (const Object& name : kwargs_.keys) takes.push_back(utf8(name.get()));
  const Object names = Object::checked(PyDict_Keys(kwargs));
  for (Py_ssize_t i = 0; i < PyList_Size(names.get()); ++i) {
    const std::string name = utf8(PyList_GetItem(names.get(), i));
    const auto place = static_cast<size_t>(std::find(takes.begin(), takes.end(), name) - takes.begin());
    if (place < given)
      raise(ErrorClass::input, "K0701", "the argument '" + name + "' is given twice: by its place and by its name");
    if (place == takes.size())
      raise(ErrorClass::input, "K0701",
            "the model takes no argument '" + name + "'" + nearest_hint(name, takes) +
                "; it takes those that the export was given: " + (takes.empty() ? "none" : join(takes, ", ")) +
                " (what the export left at its default is a constant of the program)");
  }
  raise(ErrorClass::input, "K0701", "the keyword arguments do not fit the export's");
}

bool Model::take_number(PyObject* object, size_t i, kiln_value& out) const {
  return inputs_[i].kind != KILN_TENSOR && take_plain(object, inputs_[i].kind, out);
}

std::vector<Object> Model::leaves_of(PyObject* args, PyObject* kwargs) const {
  if (!structured_) raise(ErrorClass::file, "K0700", "the package does not say how its arguments are structured");
  std::vector<Object> leaves;
  bind_arguments(args, kwargs, leaves);
  return leaves;
}

Object Model::structured(std::vector<Object>& results) const {
  Object* next = results.data();
  return unflatten(out_, next);
}

std::vector<Object> Model::run(PyObject* const* inputs, size_t count, const uint64_t* seed) {
  if (count != inputs_.size()) {
    // The runtime's own message names what it takes.
    kiln_value nothing{};
    check(kiln_run(instance_, &nothing, count, nullptr, output_count_ ? 0 : 1));
  }
  Some<kiln_value, 8> values(count);
  Some<BorrowedTensor, 8> tensors(count);
  ResultStyle style;
  void* stream = gpu_ >= 0 ? current_stream(gpu_) : nullptr;
  for (size_t i = 0; i < count; ++i) {
    const Input& input = inputs_[i];
    if (take_number(inputs[i], i, values[i])) continue;
    if (tensors[i].borrow(inputs[i], input.mutated, input.name.c_str(), stream)) {
      values[i].kind = KILN_TENSOR;
      values[i].as.tensor = tensors[i].tensor();
      style.see(tensors[i]);
    } else if (!take_plain(inputs[i], input.kind, values[i])) {
      const Object type =
          Object::checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(inputs[i])), "__name__"));
      raise(ErrorClass::input, "K0703",
            "input '" + input.name + "' is a " + utf8(type.get()) +
                ", which is neither a tensor (torch, numpy, DLPack, a buffer) nor a number");
    }
  }
  Outputs outputs(output_count_);
  // torch's tensors are used in the order of its stream; those of others may be looked at when the call returns.
  const bool wait = style.family != Family::torch;
  check(run_unlocked(values.get(), count, outputs.values.get(), stream, wait, seed));
  style.choose_without_tensors();
  std::vector<Object> out;
  out.reserve(output_count_);
  for (size_t i = 0; i < output_count_; ++i) {
    kiln_value& value = outputs.values[i];
    if (value.kind == KILN_TENSOR) {
      value.kind = KILN_NONE;  // its owner is to_python's now
      out.push_back(to_python(std::exchange(value.owner, nullptr), style, i));
    } else {
      out.push_back(plain_output(value));
    }
  }
  return out;
}

void Model::wait_until(bool (Model::*ready)() const) const {
  while (!(this->*ready)()) {
    const WithoutLock unlocked;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

kiln_status Model::run_unlocked(const kiln_value* inputs, size_t count, kiln_value* outputs, void* stream, bool wait,
                                const uint64_t* seed) {
  const bool watch = torch_profiler_is_on();
  if (watch || watched_) [[unlikely]]
    wait_until(watch ? &Model::nobody_runs : &Model::nobody_watches);
  if (watch) {
    watched_ = true;
    kiln_set_hook(instance_, record_for_torch, nullptr);
  }
  ++running_;
  kiln_status status;
  {
    const WithoutLock unlocked;
    if (gpu_ >= 0 && !wait && !stream) stream = default_stream;
    const kiln_run_options options{sizeof(kiln_run_options), stream,
                                   gpu_ < 0 || wait ? 1
                                   : errors_later   ? -1
                                                    : 0,
                                   seed ? 1 : 0, seed ? *seed : 0};
    const bool plain = gpu_ < 0 && !seed;
    status = kiln_run_with(instance_, inputs, count, outputs, output_count_, plain ? nullptr : &options);
  }
  --running_;
  if (watch) {
    kiln_set_hook(instance_, nullptr, nullptr);
    watched_ = false;
  }
  return status;
}

Object Model::call(PyObject* args, PyObject* kwargs) {
  std::vector<Object> results;
  if (plain_args_ == static_cast<size_t>(PyTuple_Size(args)) && (!kwargs || PyDict_Size(kwargs) == 0)) {
    Some<PyObject*, 8> leaves(plain_args_);
    for (size_t i = 0; i < plain_args_; ++i) leaves[i] = PyTuple_GetItem(args, static_cast<Py_ssize_t>(i));
    results = run(leaves.get(), plain_args_);
  } else {
    const std::vector<Object> leaves = leaves_of(args, kwargs);
    std::vector<PyObject*> pointers;
    for (const Object& leaf : leaves) pointers.push_back(leaf.get());
    results = run(pointers.data(), pointers.size());
  }
  return structured(results);
}

Object Model::run_flat(PyObject* inputs, const uint64_t* seed) {
  std::vector<Object> kept;
  std::vector<PyObject*> pointers;
  const Py_ssize_t count = PySequence_Size(inputs);
  require(count >= 0);
  for (Py_ssize_t i = 0; i < count; ++i) {
    kept.push_back(Object::checked(PySequence_GetItem(inputs, i)));
    pointers.push_back(kept.back().get());
  }
  std::vector<Object> results = run(pointers.data(), pointers.size(), seed);
  Object list = Object::checked(PyList_New(static_cast<Py_ssize_t>(results.size())));
  for (size_t i = 0; i < results.size(); ++i)
    PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), results[i].release());
  return list;
}

}  // namespace kiln::python
