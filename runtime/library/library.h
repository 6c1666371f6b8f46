// Library kernels: hand-written steps for what loops cannot say (sorting, results whose size depends on data). Each is
// a small file of its own; library.cpp lists them. Arguments come by the operator's own names, defaults are ATen's.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "types/dtype.h"

namespace kiln::runtime {

struct TensorView {
  DType dtype = DType::f32;
  std::span<const int64_t> sizes, strides;  // in elements
  std::byte* data = nullptr;
  int64_t rank() const { return static_cast<int64_t>(sizes.size()); }
};

// What a library kernel sees of the step that calls it.
class LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  virtual bool has(std::string_view arg) const = 0;  // given and not None
  virtual TensorView tensor(std::string_view arg) const = 0;
  virtual std::vector<TensorView> tensors(std::string_view arg) const = 0;
  virtual int64_t integer(std::string_view arg, int64_t otherwise) const = 0;
  virtual std::vector<int64_t> integers(std::string_view arg) const = 0;
  virtual double floating(std::string_view arg, double otherwise) const = 0;
  bool boolean(std::string_view arg, bool otherwise) const { return integer(arg, otherwise) != 0; }
  virtual size_t output_count() const = 0;
  virtual TensorView output(size_t index) const = 0;
  // Size phase: the value of the step's i-th defined symbol.
  virtual void define(size_t index, int64_t value) = 0;
  // Runs body(begin, end) over [0, items) on the pool.
  virtual void parallel(int64_t items, int64_t grain, const std::function<void(int64_t, int64_t)>& body) = 0;
  // Throws with the step's name and origin.
  [[noreturn]] virtual void fail(const std::string& message) const = 0;
};

struct LibraryKernel {
  const char* name;
  void (*sizes)(LibraryCall&);  // nullptr: sizes do not depend on data
  void (*run)(LibraryCall&);
};

const LibraryKernel* find_library_kernel(std::string_view name);

}  // namespace kiln::runtime
