#include "types/tensor.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "base/error.h"

namespace kiln {
namespace {

constexpr std::align_val_t storage_alignment{64};

int64_t checked_mul(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) fail_user("K0240", "the size of a tensor exceeds 64 bits");
  return out;
}

int64_t checked_add(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) fail_user("K0240", "the size of a tensor exceeds 64 bits");
  return out;
}

template <class T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
void write(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

}  // namespace

std::shared_ptr<Storage> Storage::allocate(int64_t bytes) {
  KILN_CHECK(bytes >= 0, "negative storage size");
  auto storage = std::make_shared<Storage>();
  const size_t rounded = (static_cast<size_t>(bytes) + 63) / 64 * 64 + (bytes == 0 ? 64 : 0);
  void* memory = ::operator new(rounded, storage_alignment, std::nothrow);
  if (memory == nullptr)
    fail_user("K0241", str("out of memory: a tensor needs ", bytes_text(static_cast<uint64_t>(bytes))));
  std::memset(memory, 0, rounded);
  storage->keep = std::shared_ptr<void>(memory, [](void* p) { ::operator delete(p, storage_alignment); });
  storage->data = static_cast<std::byte*>(memory);
  storage->bytes = bytes;
  return storage;
}

int64_t count_elements(const std::vector<int64_t>& sizes) {
  // An empty dimension makes the product 0 whatever the others are, so it must not overflow before.
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return 0;
  int64_t count = 1;
  for (int64_t size : sizes) count = checked_mul(count, size);
  return count;
}

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride = checked_mul(stride, std::max<int64_t>(sizes[i], 1));
  }
  return strides;
}

int64_t storage_bytes_needed(DType dtype, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                             int64_t offset) {
  KILN_CHECK(sizes.size() == strides.size(), "sizes and strides differ in number");
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] < 0 || (sizes[i] > 1 && strides[i] < 0))
      fail_user("K0243", str("a tensor with the size ", sizes[i], " and the stride ", strides[i]));
  if (count_elements(sizes) == 0) return 0;
  int64_t last = offset;
  for (size_t i = 0; i < sizes.size(); ++i) last = checked_add(last, checked_mul(sizes[i] - 1, strides[i]));
  return checked_mul(checked_add(last, 1), dtype_bytes(dtype));
}

int64_t Tensor::numel() const { return count_elements(sizes); }

bool Tensor::contiguous() const {
  int64_t expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 0) return true;
    if (sizes[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= sizes[i];
  }
  return true;
}

Tensor Tensor::empty(DType dtype, std::vector<int64_t> sizes) {
  std::vector<int64_t> strides = contiguous_strides(sizes);
  return empty_strided(dtype, std::move(sizes), std::move(strides));
}

Tensor Tensor::empty_strided(DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides) {
  Tensor out;
  out.dtype = dtype;
  out.storage = Storage::allocate(storage_bytes_needed(dtype, sizes, strides, 0));
  out.sizes = std::move(sizes);
  out.strides = std::move(strides);
  return out;
}

Tensor Tensor::scalar(DType dtype, Scalar value) {
  Tensor out = empty(dtype, {});
  store_scalar(dtype, out.data(), value);
  return out;
}

Tensor Tensor::clone() const {
  Tensor out = empty(dtype, sizes);
  out.device = device;
  copy_into(*this, out);
  return out;
}

int64_t Tensor::element_offset(int64_t linear) const {
  int64_t at = 0;
  for (size_t i = sizes.size(); i-- > 0;) {
    at += linear % sizes[i] * strides[i];
    linear /= sizes[i];
  }
  return at;
}

Scalar Tensor::at(const std::vector<int64_t>& index) const {
  KILN_CHECK(index.size() == sizes.size(), "index has another rank than the tensor");
  int64_t at = 0;
  for (size_t i = 0; i < index.size(); ++i) {
    KILN_CHECK(index[i] >= 0 && index[i] < sizes[i], "index out of range");
    at += index[i] * strides[i];
  }
  return load_scalar(dtype, data() + at * dtype_bytes(dtype));
}

Scalar Tensor::item(int64_t linear) const {
  KILN_CHECK(linear >= 0 && linear < numel(), "element out of range");
  return load_scalar(dtype, data() + element_offset(linear) * dtype_bytes(dtype));
}

void Tensor::set_item(int64_t linear, Scalar value) {
  KILN_CHECK(linear >= 0 && linear < numel(), "element out of range");
  KILN_CHECK(storage->writable, "write to a tensor that is mapped from a file");
  store_scalar(dtype, data() + element_offset(linear) * dtype_bytes(dtype), value);
}

std::string tensor_type_text(const Tensor& tensor) {
  return str(dtype_name(tensor.dtype), "[",
             join_map(tensor.sizes, ", ", [](int64_t size) { return std::to_string(size); }), "]");
}

Scalar load_scalar(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::boolean:
      return Scalar(read<uint8_t>(at) != 0);
    case DType::u8:
      return Scalar(int64_t{read<uint8_t>(at)});
    case DType::i8:
      return Scalar(int64_t{read<int8_t>(at)});
    case DType::i16:
      return Scalar(int64_t{read<int16_t>(at)});
    case DType::u16:
      return Scalar(int64_t{read<uint16_t>(at)});
    case DType::i32:
      return Scalar(int64_t{read<int32_t>(at)});
    case DType::u32:
      return Scalar(int64_t{read<uint32_t>(at)});
    case DType::i64:
    case DType::u64:
      return Scalar(read<int64_t>(at));  // u64: the same bits
    case DType::f8e4m3fn:
    case DType::f8e5m2:
    case DType::f8e4m3fnuz:
    case DType::f8e5m2fnuz:
      return Scalar(double{f8_to_f32(dtype, read<uint8_t>(at))});
    case DType::f16:
      return Scalar(double{f16_to_f32(read<uint16_t>(at))});
    case DType::bf16:
      return Scalar(double{bf16_to_f32(read<uint16_t>(at))});
    case DType::f32:
      return Scalar(double{read<float>(at)});
    case DType::f64:
      return Scalar(read<double>(at));
    case DType::c32:
      return Scalar(std::complex<double>(f16_to_f32(read<uint16_t>(at)), f16_to_f32(read<uint16_t>(at + 2))));
    case DType::c64:
      return Scalar(std::complex<double>(read<float>(at), read<float>(at + 4)));
    case DType::c128:
      return Scalar(std::complex<double>(read<double>(at), read<double>(at + 8)));
  }
  fail_bug("unknown dtype");
}

void store_scalar(DType dtype, std::byte* at, const Scalar& value) {
  switch (dtype) {
    case DType::boolean: {
      const bool bit = value.is_int() ? value.as_int() != 0 : value.as_complex() != std::complex<double>(0, 0);
      return write<uint8_t>(at, bit ? 1 : 0);
    }
    case DType::u8:
    case DType::i8:
      return write(at, static_cast<int8_t>(value.as_int()));
    case DType::i16:
    case DType::u16:
      return write(at, static_cast<int16_t>(value.as_int()));
    case DType::i32:
    case DType::u32:
      return write(at, static_cast<int32_t>(value.as_int()));
    case DType::i64:
    case DType::u64:
      return write(at, value.as_int());
    case DType::f8e4m3fn:
    case DType::f8e5m2:
    case DType::f8e4m3fnuz:
    case DType::f8e5m2fnuz:
      return write(at, f32_to_f8(dtype, static_cast<float>(value.as_double())));
    case DType::f16:
      return write(at, f64_to_f16(value.as_double()));
    case DType::bf16:
      return write(at, f64_to_bf16(value.as_double()));
    case DType::f32:
      // An int goes to f32 in one rounding, not through f64.
      return write(at, value.is_int() ? static_cast<float>(value.as_int()) : static_cast<float>(value.as_double()));
    case DType::f64:
      return write(at, value.as_double());
    case DType::c32: {
      const std::complex<double> v = value.as_complex();
      write(at, f64_to_f16(v.real()));
      return write(at + 2, f64_to_f16(v.imag()));
    }
    case DType::c64:
      return write(at, std::complex<float>(value.as_complex()));
    case DType::c128:
      return write(at, value.as_complex());
  }
}

bool dense_and_not_overlapping(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (size_t dim = 0; dim < sizes.size(); ++dim)
    if (sizes[dim] >= 2) dims.emplace_back(strides[dim], sizes[dim]);
  std::sort(dims.begin(), dims.end());
  int64_t required = 1;
  for (const auto& [stride, size] : dims) {
    if (stride != required) return false;
    required *= size;
  }
  return true;
}

std::vector<size_t> memory_order(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  std::vector<size_t> order;
  for (size_t d = sizes.size(); d-- > 0;) order.push_back(d);
  // Insertion sort, because "not comparable" (a stride of 0) is not transitive: such dimensions keep their place.
  auto further_out = [&](size_t a, size_t b) {
    if (strides[a] == 0 || strides[b] == 0) return 0;
    if (strides[a] != strides[b]) return strides[a] < strides[b] ? -1 : 1;
    return sizes[a] > sizes[b] ? 1 : 0;
  };
  for (size_t i = 1; i < order.size(); ++i) {
    size_t at = i;
    for (size_t j = i; j-- > 0;) {
      int comparison = further_out(order[j], order[at]);
      if (comparison > 0) {
        std::swap(order[j], order[at]);
        at = j;
      } else if (comparison < 0) {
        break;
      }
    }
  }
  return order;
}

std::vector<int64_t> dense_strides_like(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  std::vector<int64_t> out(sizes.size());
  int64_t next = 1;
  for (size_t d : memory_order(sizes, strides)) {
    out[d] = next;
    next *= std::max<int64_t>(sizes[d], 1);
  }
  return out;
}

}  // namespace kiln
