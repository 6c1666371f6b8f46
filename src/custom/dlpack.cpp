#include "custom/dlpack.h"

#include <cstring>

#include "base/error.h"

namespace kiln {
namespace {

struct DTypePair {
  DType dtype;
  DLDataType dlpack;
};
constexpr DTypePair pairs[] = {
    {DType::boolean, {kDLBool, 8, 1}},
    {DType::u8, {kDLUInt, 8, 1}},
    {DType::i8, {kDLInt, 8, 1}},
    {DType::i16, {kDLInt, 16, 1}},
    {DType::u16, {kDLUInt, 16, 1}},
    {DType::i32, {kDLInt, 32, 1}},
    {DType::u32, {kDLUInt, 32, 1}},
    {DType::i64, {kDLInt, 64, 1}},
    {DType::u64, {kDLUInt, 64, 1}},
    {DType::f8e4m3fn, {kDLFloat8_e4m3fn, 8, 1}},
    {DType::f8e5m2, {kDLFloat8_e5m2, 8, 1}},
    {DType::f8e4m3fnuz, {kDLFloat8_e4m3fnuz, 8, 1}},
    {DType::f8e5m2fnuz, {kDLFloat8_e5m2fnuz, 8, 1}},
    {DType::f16, {kDLFloat, 16, 1}},
    {DType::bf16, {kDLBfloat, 16, 1}},
    {DType::f32, {kDLFloat, 32, 1}},
    {DType::f64, {kDLFloat, 64, 1}},
    {DType::c32, {kDLComplex, 32, 1}},
    {DType::c64, {kDLComplex, 64, 1}},
    {DType::c128, {kDLComplex, 128, 1}},
};
static_assert(sizeof pairs / sizeof pairs[0] == dtype_count);

}  // namespace

DLDataType dlpack_dtype(DType dtype) {
  for (const DTypePair& pair : pairs)
    if (pair.dtype == dtype) return pair.dlpack;
  fail_bug("a dtype without a DLPack type");
}

DType dtype_from_dlpack(DLDataType dtype) {
  for (const DTypePair& pair : pairs)
    if (pair.dlpack.code == dtype.code && pair.dlpack.bits == dtype.bits && dtype.lanes == 1) return pair.dtype;
  fail_user("K0672", str("a tensor of DLPack type {code ", int{dtype.code}, ", bits ", int{dtype.bits}, ", lanes ",
                         int{dtype.lanes}, "}, which Kiln does not have"));
}

DLPackView::DLPackView(Tensor tensor) : tensor_(std::move(tensor)) {
  view_.data = tensor_.data();
  // Cases that were exported on a GPU run on the device that the backend chose; their files are in host memory.
  view_.device = {kDLCPU, 0};
  view_.ndim = static_cast<int32_t>(tensor_.rank());
  view_.dtype = dlpack_dtype(tensor_.dtype);
  view_.shape = tensor_.sizes.data();
  view_.strides = tensor_.strides.data();
}

Tensor tensor_from_dlpack(const DLTensor& view) {
  Tensor source;
  source.dtype = dtype_from_dlpack(view.dtype);
  source.sizes.assign(view.shape, view.shape + view.ndim);
  if (view.strides)
    source.strides.assign(view.strides, view.strides + view.ndim);
  else
    source.strides = contiguous_strides(source.sizes);
  source.storage = std::make_shared<Storage>();
  source.storage->data = static_cast<std::byte*>(view.data) + view.byte_offset;
  source.storage->bytes = storage_bytes_needed(source.dtype, source.sizes, source.strides, 0);
  Tensor copy = Tensor::empty_strided(source.dtype, source.sizes, source.strides);
  if (source.numel() > 0) std::memcpy(copy.storage->data, source.data(), static_cast<size_t>(source.storage->bytes));
  return copy;
}

}  // namespace kiln
