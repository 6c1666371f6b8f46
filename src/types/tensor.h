// A tensor with values, in host memory: what files hold, what the interpreters compute on, what debug tools compare.
// Copying a Tensor shares its storage, as in PyTorch; views are Tensors over the same storage.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "types/device.h"
#include "types/dtype.h"
#include "types/scalar.h"

namespace kiln {

struct Storage {
  std::byte* data = nullptr;
  int64_t bytes = 0;
  bool writable = true;                                     // false: mapped from a file
  std::shared_ptr<void> keep;                               // owns what `data` points to
  static std::shared_ptr<Storage> allocate(int64_t bytes);  // zeroed, aligned to 64
};

struct Tensor {
  DType dtype = DType::f32;
  std::vector<int64_t> sizes, strides;  // in elements
  int64_t offset = 0;                   // in elements
  std::shared_ptr<Storage> storage;
  Device device;  // what the file said; the bytes are in host memory all the same

  bool defined() const { return storage != nullptr; }
  int64_t rank() const { return static_cast<int64_t>(sizes.size()); }
  int64_t numel() const;
  std::byte* data() const { return storage->data + offset * dtype_bytes(dtype); }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data());
  }
  bool contiguous() const;
  // A new dense row-major tensor with the same values.
  Tensor clone() const;
  Tensor as_contiguous() const { return contiguous() ? *this : clone(); }

  static Tensor empty(DType dtype, std::vector<int64_t> sizes);  // row-major, zeroed
  static Tensor empty_strided(DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides);
  static Tensor scalar(DType dtype, Scalar value);

  // One element by its multi-index or by its row-major linear index (slow; for tests, printing and comparing).
  Scalar at(const std::vector<int64_t>& index) const;
  Scalar item(int64_t linear = 0) const;
  void set_item(int64_t linear, Scalar value);
  int64_t element_offset(int64_t linear) const;  // relative to data(), in elements
};

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& sizes);
int64_t count_elements(const std::vector<int64_t>& sizes);
// Bytes a storage needs so that every element of this layout lies inside.
int64_t storage_bytes_needed(DType dtype, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                             int64_t offset);
// Every element has its own place and there are no gaps (sizes of 1 aside): a layout that a buffer of its own can have.
bool dense_and_not_overlapping(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides);
// The dimensions from innermost to outermost as these strides order them, with PyTorch's rule for ties and strides of
// 0: a copy of a view with gaps or repeated elements is laid out in this order.
std::vector<size_t> memory_order(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides);
// Dense strides in that order.
std::vector<int64_t> dense_strides_like(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides);
// Converts values as PyTorch's `to` does (float to int truncates, int wraps, bool is != 0, rounding to even).
Tensor convert(const Tensor& tensor, DType dtype);
// Copies values (with conversion and broadcasting of sizes of 1) into an existing tensor.
void copy_into(const Tensor& source, const Tensor& destination);
std::string tensor_type_text(const Tensor& tensor);  // "f32[2, 3]"

// Scalar conversions used everywhere (see docs/semantics.md).
float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float value);
uint16_t f64_to_f16(double value);
uint16_t f64_to_bf16(double value);
float f8_to_f32(DType dtype, uint8_t bits);
uint8_t f32_to_f8(DType dtype, float value);
Scalar load_scalar(DType dtype, const std::byte* at);
void store_scalar(DType dtype, std::byte* at, const Scalar& value);

// A flat value of a case file, an input or an output: tensor, number, string, None or a list of those.
struct Datum {
  std::variant<std::monostate, Tensor, Scalar, std::string, std::vector<Datum>> value;
  bool is_none() const { return std::holds_alternative<std::monostate>(value); }
  bool is_tensor() const { return std::holds_alternative<Tensor>(value); }
  bool is_scalar() const { return std::holds_alternative<Scalar>(value); }
  bool is_list() const { return std::holds_alternative<std::vector<Datum>>(value); }
  const Tensor& tensor() const { return std::get<Tensor>(value); }
  const Scalar& scalar() const { return std::get<Scalar>(value); }
  const std::vector<Datum>& list() const { return std::get<std::vector<Datum>>(value); }
};

}  // namespace kiln
