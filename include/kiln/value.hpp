// What goes into a run and comes out of it.
#pragma once
#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

#include "kiln/element_types.hpp"
#include "kiln/result.hpp"

namespace kiln {

// A mistake of the caller's that these headers see themselves.
inline Failure mistake(const char* code, std::string message) {
  return {KILN_ERROR_ARGUMENT, code, "error[" + std::string(code) + "]: " + std::move(message)};
}

// A tensor, a number, a bool, a string or None. A tensor is a view of the caller's memory (kiln::tensor) or an output
// that this value owns.
class Value {
 public:
  Value() : value_{} {}
  Value(int64_t v) : value_{} { value_.kind = KILN_INT, value_.as.integer = v; }
  Value(int v) : Value(int64_t{v}) {}
  Value(double v) : value_{} { value_.kind = KILN_FLOAT, value_.as.floating = v; }
  Value(bool v) : value_{} { value_.kind = KILN_BOOL, value_.as.boolean = v; }
  Value(char* v) : Value(static_cast<const char*>(v)) {}
  template <class T>
  Value(T*) = delete;                // else it would be a truth value: kiln::tensor(data, sizes) makes a tensor
  Value(const char* v) : value_{} {  // a NULL is refused: here, or by the run where there are no exceptions
#if KILN_EXCEPTIONS
    if (!v) throw Exception(mistake("K0660", "kiln::Value: a string is NULL"));
#endif
    value_.kind = KILN_STRING, value_.as.string = v;
  }
  // A row-major view of memory that the caller keeps.
  Value(void* data, DLDataType dtype, std::vector<int64_t> sizes) : value_{} {
    view_ = std::make_unique<View>();
    view_->sizes = std::move(sizes);
    view_->tensor = {data, {kDLCPU, 0}, static_cast<int32_t>(view_->sizes.size()), dtype, view_->sizes.data(), nullptr,
                     0};
    value_.kind = KILN_TENSOR;
    value_.as.tensor = &view_->tensor;
  }
  // With one stride, in elements, for each size.
  static Result<Value> try_view(void* data, DLDataType dtype, std::vector<int64_t> sizes,
                                std::vector<int64_t> strides) {
    if (strides.size() != sizes.size()) return mistake("K0660", "kiln::Value: not as many strides as sizes");
    Value value(data, dtype, std::move(sizes));
    value.view_->strides = std::move(strides);
    value.view_->tensor.strides = value.view_->strides.data();
    return value;
  }
  explicit Value(kiln_value owned) : value_(owned) {}  // takes what kiln_run gave
  Value(Value&& other) noexcept : value_(std::exchange(other.value_, kiln_value{})), view_(std::move(other.view_)) {}
  Value& operator=(Value&& other) noexcept {
    std::swap(value_, other.value_);
    std::swap(view_, other.view_);
    return *this;
  }
  ~Value() { kiln_value_clear(&value_); }

  kiln_kind kind() const { return static_cast<kiln_kind>(value_.kind); }
  bool is_tensor() const { return value_.kind == KILN_TENSOR; }

  // Each fails when the value is of another kind.
  Result<int64_t> try_integer() const {
    if (value_.kind != KILN_INT) return other_kind("whole number");
    return value_.as.integer;
  }
  Result<double> try_floating() const {
    if (value_.kind != KILN_FLOAT) return other_kind("floating-point number");
    return value_.as.floating;
  }
  Result<bool> try_boolean() const {
    if (value_.kind != KILN_BOOL) return other_kind("truth value");
    return value_.as.boolean != 0;
  }
  Result<const char*> try_string() const {
    if (value_.kind != KILN_STRING) return other_kind("string");
    return value_.as.string;
  }
  Result<const DLTensor*> try_tensor() const {
    if (!is_tensor()) return other_kind("tensor");
    return static_cast<const DLTensor*>(value_.as.tensor);
  }
  // The first element. T is the tensor's element type, or std::byte for whatever it is.
  template <class T>
  Result<T*> try_data() const {
    if (!is_tensor()) return other_kind("tensor");
    const DLTensor& tensor = *value_.as.tensor;
    if constexpr (!std::is_same_v<std::remove_const_t<T>, std::byte>)
      if (element_type<T>() != ElementType(tensor.dtype))
        return mistake("K0750", "kiln::Value: the tensor has elements of type " + ElementType(tensor.dtype).name() +
                                    ", not " + element_type<T>().name());
    return reinterpret_cast<T*>(static_cast<char*>(tensor.data) + tensor.byte_offset);
  }
  // All elements in row-major order; fails where they do not lie one after the other.
  template <class T>
  Result<Span<T>> try_elements() const {
    const Result<T*> first = try_data<T>();
    if (!first) return first.error();
    const DLTensor& tensor = *value_.as.tensor;
    if (!is_contiguous())
      return mistake("K0751",
                     "kiln::Value: the tensor's elements do not lie one after the other; use data() and strides()");
    size_t count = 1;
    for (int32_t d = 0; d < tensor.ndim; ++d) count *= static_cast<size_t>(tensor.shape[d]);
    return Span<T>(*first,
                   std::is_same_v<std::remove_const_t<T>, std::byte> ? count * dtype_of(tensor).bytes() : count);
  }
  // Row-major, without gaps. Of what is no tensor: false.
  bool is_contiguous() const {
    if (!is_tensor()) return false;
    const DLTensor& tensor = *value_.as.tensor;
    for (int32_t d = 0; d < tensor.ndim; ++d)
      if (tensor.shape[d] < 0) return false;
    for (int32_t d = 0; d < tensor.ndim; ++d)
      if (tensor.shape[d] == 0) return true;
    int64_t expected = 1;
    for (int32_t d = tensor.ndim; tensor.strides && d-- > 0;) {
      if (tensor.shape[d] != 1 && tensor.strides[d] != expected) return false;
      expected *= tensor.shape[d];
    }
    return true;
  }
#if KILN_EXCEPTIONS
  // strides empty: row-major.
  Value(void* data, DLDataType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides)
      : Value(strides.empty() ? Value(data, dtype, std::move(sizes))
                              : try_view(data, dtype, std::move(sizes), std::move(strides)).value()) {}
  int64_t integer() const { return try_integer().value(); }
  double floating() const { return try_floating().value(); }
  bool boolean() const { return try_boolean().value(); }
  const char* string() const { return try_string().value(); }  // of an output: lives as long as its instance
  const DLTensor& tensor() const { return *try_tensor().value(); }
  ElementType dtype() const { return tensor().dtype; }
  std::vector<int64_t> sizes() const { return {tensor().shape, tensor().shape + tensor().ndim}; }
  std::vector<int64_t> strides() const { return strides_of(tensor()); }  // in elements
  template <class T>
  T* data() const {
    return try_data<T>().value();
  }
  template <class T>
  Span<T> elements() const {
    return try_elements<T>().value();
  }
#else
  // Of a tensor, which the caller has made sure of (is_tensor); else empty.
  ElementType dtype() const { return is_tensor() ? dtype_of(*value_.as.tensor) : ElementType(); }
  std::vector<int64_t> sizes() const {
    if (!is_tensor()) return {};
    return {value_.as.tensor->shape, value_.as.tensor->shape + value_.as.tensor->ndim};
  }
  std::vector<int64_t> strides() const { return is_tensor() ? strides_of(*value_.as.tensor) : std::vector<int64_t>(); }
#endif
  kiln_value& raw() { return value_; }
  const kiln_value& raw() const { return value_; }
  // Gives the memory of an output away, to be freed by its deleter (a DLPack consumer does that).
  DLManagedTensorVersioned* release() {
    DLManagedTensorVersioned* owner = value_.owner;
    value_ = {};
    return owner;
  }

 private:
  struct View {
    std::vector<int64_t> sizes, strides;
    DLTensor tensor;
  };
  static ElementType dtype_of(const DLTensor& tensor) { return tensor.dtype; }
  static Failure other_kind(const char* wanted) { return mistake("K0660", "kiln::Value: no " + std::string(wanted)); }
  static std::vector<int64_t> strides_of(const DLTensor& tensor) {
    if (tensor.strides) return {tensor.strides, tensor.strides + tensor.ndim};
    std::vector<int64_t> made(static_cast<size_t>(tensor.ndim), 1);
    for (size_t d = made.size(); d > 1; --d) made[d - 2] = made[d - 1] * tensor.shape[d - 1];
    return made;
  }
  kiln_value value_;
  std::unique_ptr<View> view_;
};

// Row-major views of the caller's memory: of a pointer, which is taken to have as many elements as the sizes say, and
// of a container (std::vector, std::array, std::span), whose length is compared.
template <class T>
Value tensor(T* data, std::vector<int64_t> sizes) {
  return Value(const_cast<std::remove_const_t<T>*>(data), element_type<T>(), std::move(sizes));
}
inline bool has_elements(const std::vector<int64_t>& sizes, size_t wanted) {
  size_t count = 1;
  for (const int64_t size : sizes)
    if (size < 0 || __builtin_mul_overflow(count, static_cast<size_t>(size), &count)) return false;
  return count == wanted;
}
template <class Container, class T = std::remove_pointer_t<decltype(std::data(std::declval<Container&>()))>>
Result<Value> try_tensor(Container& elements, std::vector<int64_t> sizes) {
  if (!has_elements(sizes, std::size(elements)))
    return mistake("K0752", "kiln::tensor: the sizes do not have " + std::to_string(std::size(elements)) +
                                " elements, as the container does");
  return tensor<T>(std::data(elements), std::move(sizes));
}
#if KILN_EXCEPTIONS
template <class T>
Value tensor(T* data, std::vector<int64_t> sizes, std::vector<int64_t> strides) {
  return Value(const_cast<std::remove_const_t<T>*>(data), element_type<T>(), std::move(sizes), std::move(strides));
}
template <class Container, class = std::enable_if_t<!std::is_pointer_v<Container> && !std::is_array_v<Container>>,
          class T = std::remove_pointer_t<decltype(std::data(std::declval<Container&>()))>>
Value tensor(Container& elements, std::vector<int64_t> sizes) {
  return try_tensor(elements, std::move(sizes)).value();
}
#endif

}  // namespace kiln
