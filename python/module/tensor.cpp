#include "tensor.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "dlpack_exchange.h"
#include "errors.h"

namespace nb = nanobind;

namespace kiln::python {
namespace {

struct DtypeRow {
  const char* name;
  const char* format;  // of the struct module
  DLDataType dtype;
};

constexpr DtypeRow dtypes[] = {
    {"float32", "f", {kDLFloat, 32, 1}},
    {"float64", "d", {kDLFloat, 64, 1}},
    {"float16", "e", {kDLFloat, 16, 1}},
    {"int64", "q", {kDLInt, 64, 1}},
    {"int32", "i", {kDLInt, 32, 1}},
    {"int16", "h", {kDLInt, 16, 1}},
    {"int8", "b", {kDLInt, 8, 1}},
    {"uint8", "B", {kDLUInt, 8, 1}},
    {"uint16", "H", {kDLUInt, 16, 1}},
    {"uint32", "I", {kDLUInt, 32, 1}},
    {"uint64", "Q", {kDLUInt, 64, 1}},
    {"bool", "?", {kDLBool, 8, 1}},
    {"complex64", "Zf", {kDLComplex, 64, 1}},
    {"complex128", "Zd", {kDLComplex, 128, 1}},
    {"complex32", nullptr, {kDLComplex, 32, 1}},
    {"bfloat16", nullptr, {kDLBfloat, 16, 1}},
    {"float8_e4m3fn", nullptr, {kDLFloat8_e4m3fn, 8, 1}},
    {"float8_e4m3fnuz", nullptr, {kDLFloat8_e4m3fnuz, 8, 1}},
    {"float8_e5m2", nullptr, {kDLFloat8_e5m2, 8, 1}},
    {"float8_e5m2fnuz", nullptr, {kDLFloat8_e5m2fnuz, 8, 1}},
    {"float8_e8m0fnu", nullptr, {kDLFloat8_e8m0fnu, 8, 1}},
};

bool same(DLDataType a, DLDataType b) { return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes; }

const DtypeRow* row_of(DLDataType dtype) {
  for (const DtypeRow& row : dtypes)
    if (same(row.dtype, dtype)) return &row;
  return nullptr;
}

nb::object tuple_of(const int64_t* values, int32_t count) {
  Object tuple = Object::checked(PyTuple_New(count));
  for (int32_t i = 0; i < count; ++i) {
    PyObject* item = PyLong_FromLongLong(values[i]);
    require(item != nullptr);
    PyTuple_SetItem(tuple.get(), i, item);
  }
  return nb::steal(tuple.release());
}

std::vector<int64_t> strides_of(const DLTensor& tensor) {
  const auto rank = static_cast<size_t>(tensor.ndim);
  std::vector<int64_t> strides(rank, 1);
  if (tensor.strides) {
    strides.assign(tensor.strides, tensor.strides + rank);
  } else {
    for (size_t d = rank; d-- > 1;) strides[d - 1] = strides[d] * tensor.shape[d];
  }
  return strides;
}

// ---- DLPack ---------------------------------------------------------------------------------------------------------

// A view that keeps the Python object alive.
struct Shared {
  DLManagedTensorVersioned versioned;
  DLManagedTensor old;
  PyObject* owner;
};

void drop(Shared* shared) {
  const PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF(shared->owner);
  PyGILState_Release(state);
  delete shared;
}

template <typename Managed>
void free_unused(PyObject* capsule, const char* name) {
  if (!PyCapsule_IsValid(capsule, name)) return;  // a consumer has taken it
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  managed->deleter(managed);
}

bool on_cpu(const DLTensor& tensor) { return tensor.device.device_type == kDLCPU; }
std::string place_of(const DLTensor& tensor) {
  return on_cpu(tensor) ? "the CPU" : "cuda:" + std::to_string(tensor.device.device_id);
}
nb::object device_of(const DLTensor& tensor) {
  return nb::make_tuple(static_cast<int>(tensor.device.device_type), tensor.device.device_id);
}
void check_on_cpu(const DLTensor& tensor) {
  if (!on_cpu(tensor))
    throw nb::buffer_error(("the tensor is on " + place_of(tensor) + ": hand it over by DLPack").c_str());
}

// Of a GPU's tensor the values are there, whatever stream the consumer uses: the call that made it has waited.
nb::object dlpack(nb::handle self, nb::object stream, nb::object max_version, nb::object dl_device, nb::object copy) {
  const Tensor& tensor = *nb::inst_ptr<Tensor>(self);
  if (!stream.is_none() && on_cpu(tensor.dl())) throw nb::value_error("a tensor on the CPU has no stream");
  if (!dl_device.is_none() && !dl_device.equal(device_of(tensor.dl())))
    throw nb::buffer_error(("the tensor is on " + place_of(tensor.dl())).c_str());
  if (!copy.is_none() && nb::cast<bool>(copy)) throw nb::buffer_error("make the copy from the result");
  auto* shared = new Shared{};
  shared->owner = self.inc_ref().ptr();
  const bool versioned = !max_version.is_none() && nb::cast<int>(max_version[0]) >= 1;
  PyObject* capsule = nullptr;
  if (versioned) {
    shared->versioned = {};
    shared->versioned.version = {1, 1};
    shared->versioned.dl_tensor = tensor.dl();
    shared->versioned.manager_ctx = shared;
    shared->versioned.deleter = [](DLManagedTensorVersioned* m) { drop(static_cast<Shared*>(m->manager_ctx)); };
    capsule = PyCapsule_New(&shared->versioned, "dltensor_versioned",
                            [](PyObject* c) { free_unused<DLManagedTensorVersioned>(c, "dltensor_versioned"); });
  } else {
    shared->old.dl_tensor = tensor.dl();
    shared->old.manager_ctx = shared;
    shared->old.deleter = [](DLManagedTensor* m) { drop(static_cast<Shared*>(m->manager_ctx)); };
    capsule = PyCapsule_New(&shared->old, "dltensor", [](PyObject* c) { free_unused<DLManagedTensor>(c, "dltensor"); });
  }
  if (!capsule) {
    drop(shared);
    nb::raise_python_error();
  }
  return nb::steal(capsule);
}

// ---- Buffers --------------------------------------------------------------------------------------------------------

struct BufferSizes {
  std::vector<Py_ssize_t> shape, strides;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  const DLTensor& tensor = nb::inst_ptr<Tensor>(self)->dl();
  if (!on_cpu(tensor)) {
    PyErr_Format(PyExc_BufferError, "the tensor is on %s: hand it over by DLPack", place_of(tensor).c_str());
    return -1;
  }
  const char* format = buffer_format(tensor.dtype);
  if (!format) {
    PyErr_Format(PyExc_BufferError, "a buffer cannot hold %s; use DLPack", dtype_name(tensor.dtype).c_str());
    return -1;
  }
  const bool strided = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
  if (!strided && !is_row_major(tensor)) {
    PyErr_SetString(PyExc_BufferError, "the tensor is not row-major");
    return -1;
  }
  auto* sizes = new BufferSizes;
  const auto bytes = static_cast<Py_ssize_t>(element_bytes(tensor.dtype));
  sizes->shape.assign(tensor.shape, tensor.shape + tensor.ndim);
  for (const int64_t stride : strides_of(tensor)) sizes->strides.push_back(static_cast<Py_ssize_t>(stride) * bytes);
  *view = {};
  view->obj = Py_NewRef(self);
  view->buf = static_cast<char*>(tensor.data) + tensor.byte_offset;
  view->itemsize = bytes;
  view->len = static_cast<Py_ssize_t>(element_count(tensor)) * bytes;
  view->readonly = 0;
  view->ndim = tensor.ndim;
  view->format = (flags & PyBUF_FORMAT) ? const_cast<char*>(format) : nullptr;
  view->shape = sizes->shape.data();
  view->strides = strided ? sizes->strides.data() : nullptr;
  view->internal = sizes;
  return 0;
}

void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<BufferSizes*>(view->internal); }

PyType_Slot tensor_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                              {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                              {0, nullptr}};

// ---- Values as Python lists -----------------------------------------------------------------------------------------

double bfloat16(const char* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

double float16(const char* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent == 0    ? std::ldexp(fraction, -24)
                 : exponent == 31 ? (fraction ? NAN : INFINITY)
                                  : std::ldexp(fraction + 1024, exponent - 25);
  return bits >> 15 ? -value : value;
}

template <typename T>
T load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

PyObject* element(DLDataType dtype, const char* at) {
  switch (dtype.code) {
    case kDLBool:
      return PyBool_FromLong(*at != 0);
    case kDLInt:
      return PyLong_FromLongLong(dtype.bits == 64   ? load<int64_t>(at)
                                 : dtype.bits == 32 ? load<int32_t>(at)
                                 : dtype.bits == 16 ? load<int16_t>(at)
                                                    : load<int8_t>(at));
    case kDLUInt:
      return PyLong_FromUnsignedLongLong(dtype.bits == 64   ? load<uint64_t>(at)
                                         : dtype.bits == 32 ? load<uint32_t>(at)
                                         : dtype.bits == 16 ? load<uint16_t>(at)
                                                            : load<uint8_t>(at));
    case kDLFloat:
      return PyFloat_FromDouble(dtype.bits == 64 ? load<double>(at) : dtype.bits == 32 ? load<float>(at) : float16(at));
    case kDLBfloat:
      return PyFloat_FromDouble(bfloat16(at));
    case kDLComplex:
      if (dtype.bits == 128) return PyComplex_FromDoubles(load<double>(at), load<double>(at + 8));
      if (dtype.bits == 64) return PyComplex_FromDoubles(load<float>(at), load<float>(at + 4));
      return PyComplex_FromDoubles(float16(at), float16(at + 2));
    default:
      raise(ErrorClass::unsupported, "K0707",
            "values of " + dtype_name(dtype) + " have no Python number; hand the tensor to torch or numpy by DLPack");
  }
}

Object nested_list(const DLTensor& tensor, const std::vector<int64_t>& strides, int32_t dim, const char* at) {
  if (dim == tensor.ndim) return Object::checked(element(tensor.dtype, at));
  const int64_t size = tensor.shape[dim];
  Object list = Object::checked(PyList_New(static_cast<Py_ssize_t>(size)));
  const int64_t step = strides[static_cast<size_t>(dim)] * static_cast<int64_t>(element_bytes(tensor.dtype));
  for (int64_t i = 0; i < size; ++i) {
    Object item = nested_list(tensor, strides, dim + 1, at + i * step);
    PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), item.release());
  }
  return list;
}

nb::object to_list(const Tensor& tensor) {
  const DLTensor& dl = tensor.dl();
  check_on_cpu(dl);
  try {
    return nb::steal(nested_list(dl, strides_of(dl), 0, static_cast<const char*>(dl.data) + dl.byte_offset).release());
  } catch (const PythonError&) {
    nb::raise_python_error();
  }
}

void gather(const DLTensor& tensor, const std::vector<int64_t>& strides, int32_t dim, const char* at, char*& to) {
  const size_t bytes = element_bytes(tensor.dtype);
  if (dim == tensor.ndim) {
    std::memcpy(to, at, bytes);
    to += bytes;
    return;
  }
  const int64_t step = strides[static_cast<size_t>(dim)] * static_cast<int64_t>(bytes);
  for (int64_t i = 0; i < tensor.shape[dim]; ++i) gather(tensor, strides, dim + 1, at + i * step, to);
}

nb::bytes to_bytes(const Tensor& tensor) {
  const DLTensor& dl = tensor.dl();
  check_on_cpu(dl);
  std::string out(static_cast<size_t>(element_count(dl)) * element_bytes(dl.dtype), '\0');
  const char* from = static_cast<const char*>(dl.data) + dl.byte_offset;
  char* to = out.data();
  if (is_row_major(dl))
    std::memcpy(to, from, out.size());
  else if (!out.empty())
    gather(dl, strides_of(dl), 0, from, to);
  return nb::bytes(out.data(), out.size());
}

nb::object from_bytes(nb::bytes bytes, const std::string& dtype, const std::vector<int64_t>& sizes) {
  DLDataType type;
  if (!dtype_of_name(dtype, type)) throw nb::value_error(("there is no element type " + dtype).c_str());
  DLManagedTensorVersioned* owned = allocate(type, sizes.data(), static_cast<int32_t>(sizes.size()));
  if (!owned) throw std::bad_alloc();
  const size_t size = static_cast<size_t>(element_count(owned->dl_tensor)) * element_bytes(type);
  if (size != bytes.size()) {
    owned->deleter(owned);
    throw nb::value_error("the bytes do not fit the sizes");
  }
  std::memcpy(owned->dl_tensor.data, bytes.c_str(), size);
  return nb::steal(wrap(owned).release());
}

}  // namespace

std::string dtype_name(DLDataType dtype) {
  const DtypeRow* row = row_of(dtype);
  return row ? row->name : "";
}

bool dtype_of_name(const std::string& name, DLDataType& out) {
  for (const DtypeRow& row : dtypes)
    if (name == row.name) {
      out = row.dtype;
      return true;
    }
  return false;
}

const char* buffer_format(DLDataType dtype) {
  const DtypeRow* row = row_of(dtype);
  return row ? row->format : nullptr;
}

bool dtype_of_format(const char* format, Py_ssize_t item_bytes, DLDataType& out) {
  if (!format) format = "B";
  if (*format == '@' || *format == '=' || *format == '<') ++format;  // this machine is little-endian
  const auto bits = static_cast<uint8_t>(item_bytes * 8);
  if (format[0] == 'Z' && (format[1] == 'f' || format[1] == 'd') && !format[2]) {
    out = {kDLComplex, bits, 1};
    return true;
  }
  if (!format[0] || format[1]) return false;
  if (std::strchr("efd", *format))
    out = {kDLFloat, bits, 1};
  else if (std::strchr("bhilq", *format))
    out = {kDLInt, bits, 1};
  else if (std::strchr("BHILQ", *format))
    out = {kDLUInt, bits, 1};
  else if (*format == '?')
    out = {kDLBool, 8, 1};
  else
    return false;
  return true;
}

size_t element_bytes(DLDataType dtype) { return (static_cast<size_t>(dtype.bits) * dtype.lanes + 7) / 8; }

int64_t element_count(const DLTensor& tensor) {
  int64_t count = 1;
  for (int32_t d = 0; d < tensor.ndim; ++d) count *= tensor.shape[d];
  return count;
}

bool is_row_major(const DLTensor& tensor) {
  if (!tensor.strides || element_count(tensor) == 0) return true;
  int64_t expected = 1;
  for (int32_t d = tensor.ndim; d-- > 0;) {
    if (tensor.shape[d] != 1 && tensor.strides[d] != expected) return false;
    expected *= tensor.shape[d];
  }
  return true;
}

DLManagedTensorVersioned* allocate(DLDataType dtype, const int64_t* sizes, int32_t rank) {
  struct Owned {
    DLManagedTensorVersioned managed;
    std::vector<int64_t> sizes, strides;
  };
  auto* owned = new Owned{};
  owned->sizes.assign(sizes, sizes + rank);
  owned->strides.assign(static_cast<size_t>(rank), 1);
  int64_t count = 1;
  for (auto d = static_cast<size_t>(rank); d-- > 0;) owned->strides[d] = count, count *= sizes[d];
  const size_t bytes = (static_cast<size_t>(count) * element_bytes(dtype) + 63) / 64 * 64;
  void* memory = std::aligned_alloc(64, bytes ? bytes : 64);
  if (!memory) {
    delete owned;
    return nullptr;
  }
  owned->managed.version = {1, 1};
  owned->managed.dl_tensor = {memory, {kDLCPU, 0}, rank, dtype, owned->sizes.data(), owned->strides.data(), 0};
  owned->managed.manager_ctx = owned;
  owned->managed.deleter = [](DLManagedTensorVersioned* self) {
    std::free(self->dl_tensor.data);
    delete static_cast<Owned*>(self->manager_ctx);
  };
  return &owned->managed;
}

Object wrap(DLManagedTensorVersioned* owned) {
  auto tensor = std::make_unique<Tensor>(owned);
  nb::object object = nb::cast(tensor.get(), nb::rv_policy::take_ownership);
  tensor.release();
  return Object::owned(object.release().ptr());
}

const Tensor* tensor_of(PyObject* object) {
  return nb::isinstance<Tensor>(nb::handle(object)) ? nb::inst_ptr<Tensor>(nb::handle(object)) : nullptr;
}

void bind_tensor(nb::module_& module) {
  nb::class_<Tensor>(module, "Tensor", nb::type_slots(tensor_slots),
                     "A tensor that speaks DLPack and, where it is on the CPU, the buffer protocol.")
      .def_prop_ro("shape", [](const Tensor& t) { return tuple_of(t.dl().shape, t.dl().ndim); })
      .def_prop_ro(
          "strides",
          [](const Tensor& t) {
            const std::vector<int64_t> strides = strides_of(t.dl());
            return tuple_of(strides.data(), t.dl().ndim);
          },
          "in elements")
      .def_prop_ro("ndim", [](const Tensor& t) { return t.dl().ndim; })
      .def_prop_ro("dtype", [](const Tensor& t) { return dtype_name(t.dl().dtype); })
      .def("tolist", to_list)
      .def("tobytes", to_bytes)
      .def("__dlpack__", dlpack, nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
           nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none())
      .def("__dlpack_device__", [](const Tensor& t) { return device_of(t.dl()); })
      .def("__len__",
           [](const Tensor& t) -> size_t {
             if (t.dl().ndim == 0) throw nb::type_error("a tensor without dimensions has no length");
             return static_cast<size_t>(t.dl().shape[0]);
           })
      .def("__reduce__", [](nb::handle self) {
        const Tensor& t = *nb::inst_ptr<Tensor>(self);
        return nb::make_tuple(nb::module_::import_("kiln._package").attr("_tensor"),
                              nb::make_tuple(to_bytes(t), dtype_name(t.dl().dtype), self.attr("shape")));
      });
  module.def("tensor_from_bytes", from_bytes, nb::arg("bytes"), nb::arg("dtype"), nb::arg("shape"));
}

}  // namespace kiln::python
