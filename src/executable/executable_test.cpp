#include "executable/executable.h"

#include <gtest/gtest.h>

#include "custom/dlpack.h"

namespace kiln {
namespace {

TEST(Executable, NamesOfBackends) {
  for (const Backend backend : {Backend::compiled, Backend::loops, Backend::interpret})
    EXPECT_EQ(backend_from_name(backend_name(backend)), backend);
  EXPECT_EQ(backend_from_name("eager"), std::nullopt);
}

TEST(Executable, CopiesOfInputsShareAsTheOriginalsDo) {
  Tensor base = Tensor::empty(DType::f32, {2, 3});
  base.set_item(4, Scalar(7.0));
  Tensor view = base;
  view.sizes = {2};
  view.strides = {3};
  view.offset = 1;
  const std::vector<Datum> copies = copy_inputs({Datum{base}, Datum{view}, Datum{Scalar(3)}, Datum{}});
  const Tensor& base_copy = copies[0].tensor();
  const Tensor& view_copy = copies[1].tensor();
  EXPECT_NE(base_copy.storage, base.storage);
  EXPECT_EQ(base_copy.storage, view_copy.storage);
  EXPECT_EQ(view_copy.strides, view.strides);
  EXPECT_EQ(view_copy.item(1).as_double(), 7.0);
  EXPECT_EQ(copies[2].scalar(), Scalar(3));
  EXPECT_TRUE(copies[3].is_none());
}

TEST(DLPack, EveryDtypeThereAndBack) {
  for (int i = 0; i < dtype_count; ++i) {
    const DType dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_dlpack(dlpack_dtype(dtype)), dtype) << dtype_name(dtype);
    EXPECT_EQ(dlpack_dtype(dtype).bits, dtype_bytes(dtype) * 8) << dtype_name(dtype);
  }
  EXPECT_THROW(dtype_from_dlpack({kDLFloat, 32, 2}), Error);
}

TEST(DLPack, ViewsAndCopiesKeepStrides) {
  Tensor base = Tensor::empty(DType::i64, {2, 3});
  for (int64_t i = 0; i < 6; ++i) base.set_item(i, Scalar(i));
  Tensor view = base;
  view.sizes = {3, 2};
  view.strides = {1, 3};
  const DLPackView dlpack(view);
  const Tensor copy = tensor_from_dlpack(*dlpack.get());
  EXPECT_EQ(copy.strides, view.strides);
  EXPECT_NE(copy.storage, view.storage);
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(copy.item(i), view.item(i));
}

}  // namespace
}  // namespace kiln
