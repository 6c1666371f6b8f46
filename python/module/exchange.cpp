#include "exchange.h"

#include <cstring>
#include <string>
#include <unordered_map>

#include "dlpack_exchange.h"
#include "errors.h"
#include "tensor.h"

namespace kiln::python {

enum class Way : uint8_t { none, own, exchange, buffer, capsule, refused };

// What is known of a Python type. Found once per type, which is then kept alive.
struct TensorType {
  Way way = Way::none;
  Family family = Family::none;
  const ExchangeTable* table = nullptr;
  Object type;
};

namespace {

// Names of attributes, made once.
PyObject* name_of(PyObject*& kept, const char* text) {
  if (!kept) kept = PyUnicode_InternFromString(text);
  require(kept != nullptr);
  return kept;
}

Object attribute_of_module(const char* module, const char* name) {
  const Object found = imported_module(module);
  return found ? find_attribute(found.get(), name) : Object();
}

bool is_subtype(PyObject* type, const Object& of) {
  if (!of) return false;
  const int answer = PyObject_IsSubclass(type, of.get());
  require(answer >= 0);
  return answer == 1;
}

const ExchangeTable* exchange_table(PyObject* type) {
  const Object capsule = find_attribute(type, "__dlpack_c_exchange_api__");
  if (!capsule || !PyCapsule_IsValid(capsule.get(), "dlpack_exchange_api")) return nullptr;
  auto* header = static_cast<ExchangeHeader*>(PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api"));
  while (header && header->version.major != 1) header = header->previous;
  return reinterpret_cast<const ExchangeTable*>(header);
}

// A class whose values are not in its memory (a wrapper, a fake tensor) intercepts torch's operators.
bool intercepts_operators(PyObject* type, const Object& torch_tensor) {
  const Object own = find_attribute(type, "__torch_dispatch__");
  const Object plain = find_attribute(torch_tensor.get(), "__torch_dispatch__");
  if (!own || !plain) return false;
  const Object own_function = find_attribute(own.get(), "__func__"), function = find_attribute(plain.get(), "__func__");
  return (own_function ? own_function.get() : own.get()) != (function ? function.get() : plain.get());
}

TensorType examine(PyTypeObject* of) {
  PyObject* type = reinterpret_cast<PyObject*>(of);
  TensorType out;
  out.type = Object::borrowed(type);
  const Object torch_tensor = attribute_of_module("torch", "Tensor");
  if (is_subtype(type, torch_tensor)) {
    out.family = Family::torch;
    out.table = exchange_table(type);
    out.way = intercepts_operators(type, torch_tensor) ? Way::refused : out.table ? Way::exchange : Way::capsule;
    return out;
  }
  if (is_subtype(type, attribute_of_module("numpy", "ndarray")) ||
      is_subtype(type, attribute_of_module("numpy", "generic"))) {
    out.family = Family::numpy;
    out.way = Way::buffer;
    return out;
  }
  out.family = Family::other;
  if ((out.table = exchange_table(type)) != nullptr)
    out.way = Way::exchange;
  else if (find_attribute(type, "__dlpack__"))
    out.way = Way::capsule;
  else
    out.family = Family::none;
  return out;
}

// Never freed: the interpreter, which owns the types, is gone before this module's own memory.
std::unordered_map<PyTypeObject*, std::unique_ptr<TensorType>>& known_types() {
  static auto* const known = new std::unordered_map<PyTypeObject*, std::unique_ptr<TensorType>>;
  return *known;
}

const TensorType& type_of(PyObject* object) {
  static PyTypeObject* last = nullptr;
  static const TensorType* last_known = nullptr;
  PyTypeObject* type = Py_TYPE(object);
  if (type == last) return *last_known;
  const auto found = known_types().find(type);
  if (found != known_types().end()) {
    last_known = found->second.get();
  } else {
    TensorType examined = examine(type);  // may run Python, and so come here again
    if (tensor_of(object)) examined.way = Way::own, examined.family = Family::none;
    if (examined.way == Way::none && PyObject_CheckBuffer(object) && !PyBytes_Check(object)) examined.way = Way::buffer;
    std::unique_ptr<TensorType>& entry = known_types()[type];
    if (!entry) entry = std::make_unique<TensorType>(std::move(examined));
    last_known = entry.get();
  }
  last = type;
  return *last_known;
}

std::string told(const char* name) { return std::string("input '") + name + "' "; }

// The message of the Python exception that is set, which is cleared.
std::string take_message() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  const Object kept_type = Object::owned(type), kept_value = Object::owned(value), kept_trace = Object::owned(trace);
  const Object text = Object::owned(value ? PyObject_Str(value) : nullptr);
  Py_ssize_t size = 0;
  const char* utf8 = text ? PyUnicode_AsUTF8AndSize(text.get(), &size) : nullptr;
  PyErr_Clear();
  const std::string message = utf8 ? std::string(utf8, static_cast<size_t>(size)) : "unknown";
  return message.substr(0, message.find("\nException raised from"));  // without torch's own stack
}

[[noreturn]] void refuse(const char* name, const std::string& why) {
  raise(ErrorClass::input, "K0703", told(name) + "cannot be used: " + why);
}

// A result that is part of a computation of gradients would be cut off from it without a word.
void refuse_gradient(PyObject* object, const char* name) {
  static PyObject *requires_grad = nullptr, *is_grad_enabled = nullptr;
  const Object needs = Object::owned(PyObject_GetAttr(object, name_of(requires_grad, "requires_grad")));
  if (!needs) return PyErr_Clear();
  if (needs.get() == Py_False) return;
  const Object torch = imported_module("torch");
  if (!torch) return;
  const Object enabled =
      Object::checked(PyObject_CallMethodObjArgs(torch.get(), name_of(is_grad_enabled, "is_grad_enabled"), nullptr));
  if (enabled.get() == Py_True)
    raise(ErrorClass::input, "K0702",
          told(name) +
              "requires a gradient, which a compiled package does not compute: call the model under torch.no_grad() or "
              "torch.inference_mode(), or pass the tensor's .detach()");
}

bool true_method(PyObject* object, PyObject* method) {
  const Object answer = Object::checked(PyObject_VectorcallMethod(method, &object, 1, nullptr));
  return answer.get() == Py_True;
}

// Bits of torch's views that DLPack has no word for: the memory holds other values than the tensor has. Gives a tensor
// whose memory holds them, or nothing where there is no such bit.
Object resolved_bits(PyObject* object, const DLTensor& tensor, bool written, const char* name) {
  static PyObject *is_neg = nullptr, *is_conj = nullptr, *resolve_neg = nullptr, *resolve_conj = nullptr;
  if (tensor.dtype.code != kDLFloat && tensor.dtype.code != kDLComplex && tensor.dtype.code != kDLBfloat) return {};
  const bool negated = true_method(object, name_of(is_neg, "is_neg"));
  const bool conjugated = tensor.dtype.code == kDLComplex && true_method(object, name_of(is_conj, "is_conj"));
  if (!negated && !conjugated) return {};
  if (written)
    raise(ErrorClass::input, "K0704",
          told(name) + "is written by the program and cannot be used in place: it is a negated or conjugated view");
  Object out = Object::borrowed(object);
  if (negated)
    out = Object::checked(PyObject_CallMethodObjArgs(out.get(), name_of(resolve_neg, "resolve_neg"), nullptr));
  if (conjugated)
    out = Object::checked(PyObject_CallMethodObjArgs(out.get(), name_of(resolve_conj, "resolve_conj"), nullptr));
  return out;
}

}  // namespace

Family BorrowedTensor::family() const { return type_ ? type_->family : Family::none; }

void BorrowedTensor::release() {
  if (has_buffer_) PyBuffer_Release(&buffer_);
  if (managed_ && managed_->deleter) managed_->deleter(managed_);
  if (managed_old_ && managed_old_->deleter) managed_old_->deleter(managed_old_);
  has_buffer_ = copied_ = false;
  managed_ = nullptr;
  managed_old_ = nullptr;
  object_ = Object();
  type_ = nullptr;
}

bool BorrowedTensor::borrow(PyObject* object, bool written, const char* name, void* stream) {
  const TensorType& type = type_of(object);
  if (type.way == Way::none) return false;
  type_ = &type;
  object_ = Object::borrowed(object);
  switch (type.way) {
    case Way::own:
      tensor_ = tensor_of(object)->dl();
      return true;
    case Way::exchange: {
      check_gradient(name);
      take_view(object, name);
      if (type.family != Family::torch) return true;
      if (Object resolved = resolved_bits(object, tensor_, written, name)) {
        object_ = std::move(resolved);
        copied_ = true;
        take_view(object_.get(), name);
      }
      return true;
    }
    case Way::buffer:
      return take_buffer(object, written, name);
    case Way::capsule:
      check_gradient(name);
      return take_capsule(object, written, name, stream);
    default: {
      const Object type_name = Object::checked(PyObject_Str(type.type.get()));
      const char* text = PyUnicode_AsUTF8AndSize(type_name.get(), nullptr);
      refuse(name, std::string("it is a ") + (text ? text : "subclass of torch.Tensor") +
                       ", whose values are not in its own memory; pass a plain torch.Tensor");
    }
  }
}

void BorrowedTensor::take_view(PyObject* object, const char* name) {
  if (type_->table->view) {
    if (type_->table->view(object, &tensor_) != 0) refuse(name, take_message());
    return;
  }
  if (type_->table->from_python(object, &managed_) != 0) refuse(name, take_message());
  tensor_ = managed_->dl_tensor;
}

void BorrowedTensor::check_gradient(const char* name) const {
  if (family() == Family::torch) refuse_gradient(object_.get(), name);
}

bool BorrowedTensor::is_unmoved() const {
  if (has_buffer_) return has_same_buffer();
  if (type_->way != Way::exchange || !type_->table->view) return true;  // what is held cannot move
  DLTensor now{};
  if (type_->table->view(object_.get(), &now) != 0) return PyErr_Clear(), false;
  const auto rank = static_cast<size_t>(tensor_.ndim);
  const auto alike = [&](const int64_t* a, const int64_t* b) {
    return rank == 0 || (a && b ? std::memcmp(a, b, rank * sizeof *a) == 0 : a == b);
  };
  return now.data == tensor_.data && now.byte_offset == tensor_.byte_offset && now.ndim == tensor_.ndim &&
         std::memcmp(&now.dtype, &tensor_.dtype, sizeof now.dtype) == 0 && alike(now.shape, tensor_.shape) &&
         alike(now.strides, tensor_.strides);
}

// The memory of a buffer that is held stays; an array's shape, strides and type can be set in place.
bool BorrowedTensor::has_same_buffer() const {
  Py_buffer now;
  if (PyObject_GetBuffer(object_.get(), &now, PyBUF_STRIDES | PyBUF_FORMAT) != 0) return PyErr_Clear(), false;
  const size_t bytes = static_cast<size_t>(buffer_.ndim) * sizeof(Py_ssize_t);
  const bool same = now.buf == buffer_.buf && now.ndim == buffer_.ndim && now.itemsize == buffer_.itemsize &&
                    std::strcmp(now.format ? now.format : "B", buffer_.format ? buffer_.format : "B") == 0 &&
                    (bytes == 0 || (std::memcmp(now.shape, buffer_.shape, bytes) == 0 &&
                                    std::memcmp(now.strides, buffer_.strides, bytes) == 0));
  PyBuffer_Release(&now);
  return same;
}

bool BorrowedTensor::take_buffer(PyObject* object, bool written, const char* name) {
  const int flags = PyBUF_STRIDES | PyBUF_FORMAT | (written ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object, &buffer_, flags) != 0) {
    const std::string why = take_message();
    // numpy's arrays of ml_dtypes' types have no buffer: their bits are looked at as integers.
    const Object dtype = find_attribute(object, "dtype");
    const Object dtype_text = dtype ? find_attribute(dtype.get(), "name") : Object();
    const char* text = dtype_text ? PyUnicode_AsUTF8AndSize(dtype_text.get(), nullptr) : nullptr;
    if (!text) PyErr_Clear();
    DLDataType found;
    if (!text || !dtype_of_name(text, found) || buffer_format(found)) {
      if (written)
        raise(ErrorClass::input, "K0704",
              told(name) + "is written by the program, and its memory is read-only: " + why);
      refuse(name, why);
    }
    const Object bits =
        Object::checked(PyObject_CallMethod(object, "view", "s", found.bits == 16 ? "uint16" : "uint8"));
    const TensorType* type = type_;
    object_ = bits;
    take_buffer(bits.get(), written, name);
    type_ = type;
    tensor_.dtype = found;
    return true;
  }
  has_buffer_ = true;
  DLDataType dtype;
  if (!dtype_of_format(buffer_.format, buffer_.itemsize, dtype)) {
    take_copy(object, written, name, "its elements are not numbers in this machine's byte order");
    return true;
  }
  const int32_t rank = buffer_.ndim;
  int64_t* strides = small_;
  if (rank > 8) {
    large_ = std::make_unique<int64_t[]>(static_cast<size_t>(rank));
    strides = large_.get();
  }
  for (int32_t d = 0; d < rank; ++d) {
    const Py_ssize_t stride = buffer_.strides[d];
    if (stride % buffer_.itemsize != 0 || (stride < 0 && buffer_.shape[d] > 1)) {
      take_copy(object, written, name, "its strides are negative or no whole elements");
      return true;
    }
    strides[d] = stride < 0 ? 1 : stride / buffer_.itemsize;
  }
  static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));
  tensor_ = {buffer_.buf, {kDLCPU, 0}, rank, dtype, reinterpret_cast<int64_t*>(buffer_.shape), strides, 0};
  return true;
}

// What numpy has and DLPack has not (elements in reverse, another byte order) is copied.
void BorrowedTensor::take_copy(PyObject* object, bool written, const char* name, const char* why) {
  PyBuffer_Release(&buffer_);
  has_buffer_ = false;
  if (copied_) refuse(name, why);
  if (written)
    raise(ErrorClass::input, "K0704", told(name) + "is written by the program and cannot be used in place: " + why);
  const Object dtype = find_attribute(object, "dtype");
  const Object numpy = imported_module("numpy");
  if (!dtype || !numpy) refuse(name, why);
  const Object native = Object::checked(PyObject_CallMethod(dtype.get(), "newbyteorder", "s", "="));
  const Object copy =
      Object::checked(PyObject_CallMethod(numpy.get(), "ascontiguousarray", "OO", object, native.get()));
  copied_ = true;
  object_ = copy;
  take_buffer(copy.get(), written, name);
}

namespace {

bool is_on_gpu(PyObject* object) {
  const Object device = Object::owned(PyObject_CallMethod(object, "__dlpack_device__", nullptr));
  const Object type = device ? Object::owned(PySequence_GetItem(device.get(), 0)) : Object();
  const long number = type ? PyLong_AsLong(type.get()) : 0;
  PyErr_Clear();
  return number == kDLCUDA || number == kDLCUDAManaged;
}

}  // namespace

bool BorrowedTensor::take_capsule(PyObject* object, bool written, const char* name, void* stream) {
  const Object method = Object::checked(PyObject_GetAttrString(object, "__dlpack__"));
  const Object none = Object::checked(PyTuple_New(0));
  const Object newest = Object::checked(Py_BuildValue("{s(ii)}", "max_version", 1, 1));
  // Without a word a producer makes its values ready for the default stream.
  if (stream && is_on_gpu(object)) {
    const Object number = Object::checked(PyLong_FromVoidPtr(stream));
    require(PyDict_SetItemString(newest.get(), "stream", number.get()) == 0);
  }
  Object capsule = Object::owned(PyObject_Call(method.get(), none.get(), newest.get()));
  if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    capsule = Object::owned(PyObject_Call(method.get(), none.get(), nullptr));
  }
  if (!capsule) refuse(name, take_message());
  bool read_only = false;
  if (PyCapsule_IsValid(capsule.get(), "dltensor_versioned")) {
    auto* managed = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.get(), "dltensor_versioned"));
    if (managed->version.major != 1) refuse(name, "it speaks another version of DLPack");
    require(PyCapsule_SetName(capsule.get(), "used_dltensor_versioned") == 0);
    managed_ = managed;
    tensor_ = managed->dl_tensor;
    read_only = managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY;
  } else if (PyCapsule_IsValid(capsule.get(), "dltensor")) {
    managed_old_ = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.get(), "dltensor"));
    require(PyCapsule_SetName(capsule.get(), "used_dltensor") == 0);
    tensor_ = managed_old_->dl_tensor;
  } else {
    refuse(name, "its __dlpack__ gives no DLPack tensor");
  }
  if (written && read_only)
    raise(ErrorClass::input, "K0704", told(name) + "is written by the program, and its memory is read-only");
  return true;
}

void* current_stream(int gpu) {
  static const ExchangeTable* table = nullptr;  // of torch, once it uses a GPU
  void* stream = nullptr;
  if (table && table->current_stream && table->current_stream(kDLCUDA, gpu, &stream) == 0) return stream;
  PyErr_Clear();
  const Object torch = imported_module("torch");
  if (!torch) return nullptr;
  const Object cuda = find_attribute(torch.get(), "cuda");
  const Object started = cuda ? Object::owned(PyObject_CallMethod(cuda.get(), "is_initialized", nullptr)) : Object();
  if (!started || started.get() != Py_True) return PyErr_Clear(), nullptr;
  if (!table) table = exchange_table(attribute_of_module("torch", "Tensor").get());
  const Object current = Object::checked(PyObject_CallMethod(cuda.get(), "current_stream", "i", gpu));
  const Object number = Object::checked(PyObject_GetAttrString(current.get(), "cuda_stream"));
  return PyLong_AsVoidPtr(number.get());
}

// ---- Results --------------------------------------------------------------------------------------------------------

namespace {

Object numpy_array(DLManagedTensorVersioned* owned, size_t output) {
  const DLDataType dtype = owned->dl_tensor.dtype;
  static PyObject* asarray = nullptr;
  if (!asarray) {
    const Object numpy = Object::checked(PyImport_ImportModule("numpy"));
    asarray = PyObject_GetAttrString(numpy.get(), "asarray");
    require(asarray != nullptr);
  }
  const bool known = buffer_format(dtype) != nullptr;
  if (!known) {
    // Numpy's own types end here; ml_dtypes has bfloat16 and the small floats.
    const Object ml_dtypes = dtype.code == kDLComplex ? Object() : Object::owned(PyImport_ImportModule("ml_dtypes"));
    PyErr_Clear();
    const Object type = ml_dtypes ? find_attribute(ml_dtypes.get(), dtype_name(dtype).c_str()) : Object();
    if (!type) {
      owned->deleter(owned);
      raise(ErrorClass::unsupported, "K0706",
            "output " + std::to_string(output) + " is " + dtype_name(dtype) +
                ", which numpy does not have: install ml_dtypes, or call the model with torch tensors");
    }
    owned->dl_tensor.dtype = {kDLUInt, dtype.bits, 1};
    const Object bits = wrap(owned);
    const Object array = Object::checked(PyObject_CallFunctionObjArgs(asarray, bits.get(), nullptr));
    return Object::checked(PyObject_CallMethod(array.get(), "view", "O", type.get()));
  }
  const Object tensor = wrap(owned);
  return Object::checked(PyObject_CallFunctionObjArgs(asarray, tensor.get(), nullptr));
}

}  // namespace

void ResultStyle::choose_without_tensors() {
  if (type) return;
  static const TensorType* torch_type = nullptr;
  if (!torch_type)
    if (const Object torch_tensor = attribute_of_module("torch", "Tensor"))
      torch_type = new TensorType(examine(reinterpret_cast<PyTypeObject*>(torch_tensor.get())));
  if (torch_type)
    family = Family::torch, type = torch_type;
  else if (imported_module("numpy"))
    family = Family::numpy;
}

Object to_python(DLManagedTensorVersioned* owned, const ResultStyle& style, size_t output) {
  if (style.family == Family::torch || (style.type && style.type->table)) {
    if (style.type->table) {
      void* out = nullptr;
      require(style.type->table->to_python(owned, &out) == 0);
      return Object::owned(static_cast<PyObject*>(out));
    }
    const Object tensor = wrap(owned);
    const Object torch = Object::checked(PyImport_ImportModule("torch"));
    return Object::checked(PyObject_CallMethod(torch.get(), "from_dlpack", "O", tensor.get()));
  }
  if (style.family == Family::numpy) return numpy_array(owned, output);
  Object tensor = wrap(owned);
  if (style.family != Family::other) return tensor;
  const Object get_namespace = find_attribute(style.example.get(), "__array_namespace__");
  if (!get_namespace) return tensor;
  const Object arrays = Object::checked(PyObject_CallObject(get_namespace.get(), nullptr));
  return Object::checked(PyObject_CallMethod(arrays.get(), "from_dlpack", "O", tensor.get()));
}

}  // namespace kiln::python
