// Tensors in a GPU's memory, streams and events for tests, by the driver itself (or its stand-in).
#pragma once
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "counts.h"
#include "kiln/kiln.h"

namespace kiln_test {

#define KILN_DRIVER(name) (*reinterpret_cast<decltype(&driver_##name)>(symbol(#name)))
// The driver's functions that tests use, by type.
int driver_cuInit(unsigned);
int driver_cuDevicePrimaryCtxRetain(void**, int);
int driver_cuCtxPushCurrent_v2(void*);
int driver_cuCtxPopCurrent_v2(void**);
int driver_cuMemAlloc_v2(unsigned long long*, size_t);
int driver_cuMemFree_v2(unsigned long long);
int driver_cuMemcpyHtoD_v2(unsigned long long, const void*, size_t);
int driver_cuMemcpyDtoH_v2(void*, unsigned long long, size_t);
int driver_cuMemcpyHtoDAsync_v2(unsigned long long, const void*, size_t, void*);
int driver_cuMemHostAlloc(void**, size_t, unsigned);
int driver_cuMemFreeHost(void*);
int driver_cuStreamCreate(void**, unsigned);
int driver_cuStreamDestroy_v2(void*);
int driver_cuStreamSynchronize(void*);
int driver_cuCtxSynchronize();
kiln_stand_in_counts driver_kiln_stand_in();

inline void* library() {
  static void* opened = dlopen("libcuda.so.1", RTLD_NOW);
  return opened;
}
inline void* symbol(const char* name) {
  void* found = library() ? dlsym(library(), name) : nullptr;
  if (!found) std::fprintf(stderr, "no %s\n", name), std::abort();
  return found;
}
inline bool is_stand_in() { return library() && dlsym(library(), "kiln_stand_in"); }
inline kiln_stand_in_counts counts() { return KILN_DRIVER(kiln_stand_in)(); }

inline void must(int result) {
  if (result != 0) std::fprintf(stderr, "the driver says %d\n", result), std::abort();
}

// A GPU's context is the thread's while it lives.
class OnGpu {
 public:
  explicit OnGpu(int gpu = 0) {
    void* context = nullptr;
    must(KILN_DRIVER(cuInit)(0));
    must(KILN_DRIVER(cuDevicePrimaryCtxRetain)(&context, gpu));
    must(KILN_DRIVER(cuCtxPushCurrent_v2)(context));
  }
  ~OnGpu() {
    void* context = nullptr;
    KILN_DRIVER(cuCtxPopCurrent_v2)(&context);
  }
  OnGpu(const OnGpu&) = delete;
};

class GpuTensor {
 public:
  GpuTensor(std::vector<int64_t> sizes, DLDataType dtype = {kDLFloat, 32, 1}, int gpu = 0)
      : sizes_(std::move(sizes)), gpu_(gpu) {
    const OnGpu on(gpu);
    bytes_ = dtype.bits / 8u;
    for (int64_t size : sizes_) bytes_ *= static_cast<size_t>(size);
    must(KILN_DRIVER(cuMemAlloc_v2)(&memory_, bytes_ ? bytes_ : 1));
    tensor_.data = reinterpret_cast<void*>(memory_);
    tensor_.device = {kDLCUDA, gpu};
    tensor_.ndim = static_cast<int32_t>(sizes_.size());
    tensor_.dtype = dtype;
    tensor_.shape = sizes_.data();
  }
  GpuTensor(std::vector<int64_t> sizes, const std::vector<float>& values, int gpu = 0)
      : GpuTensor(std::move(sizes), DLDataType{kDLFloat, 32, 1}, gpu) {
    write(values);
  }
  ~GpuTensor() {
    const OnGpu on(gpu_);
    KILN_DRIVER(cuMemFree_v2)(memory_);
  }
  GpuTensor(const GpuTensor&) = delete;

  void write(const std::vector<float>& values) {
    const OnGpu on(gpu_);
    must(KILN_DRIVER(cuMemcpyHtoD_v2)(memory_, values.data(), values.size() * sizeof(float)));
    must(KILN_DRIVER(cuCtxSynchronize)());
  }
  std::vector<float> read() const { return read_floats(tensor_); }
  static std::vector<float> read_floats(const DLTensor& tensor) {
    const OnGpu on(tensor.device.device_id);
    size_t count = 1;
    for (int32_t d = 0; d < tensor.ndim; ++d) count *= static_cast<size_t>(tensor.shape[d]);
    std::vector<float> values(count);
    if (count > 0)
      must(KILN_DRIVER(cuMemcpyDtoH_v2)(values.data(), reinterpret_cast<unsigned long long>(tensor.data),
                                        count * sizeof(float)));
    return values;
  }
  kiln_value value() {
    kiln_value out{};
    out.kind = KILN_TENSOR;
    out.as.tensor = &tensor_;
    return out;
  }
  DLTensor& tensor() { return tensor_; }
  unsigned long long memory() const { return memory_; }
  size_t bytes() const { return bytes_; }

 private:
  std::vector<int64_t> sizes_;
  int gpu_;
  size_t bytes_ = 0;
  unsigned long long memory_ = 0;
  DLTensor tensor_{};
};

class GpuStream {
 public:
  explicit GpuStream(bool ordered_with_legacy = false, int gpu = 0) : gpu_(gpu) {
    const OnGpu on(gpu);
    must(KILN_DRIVER(cuStreamCreate)(&stream_, ordered_with_legacy ? 0 : 1));
  }
  ~GpuStream() {
    const OnGpu on(gpu_);
    KILN_DRIVER(cuStreamDestroy_v2)(stream_);
  }
  GpuStream(const GpuStream&) = delete;
  void wait() {
    const OnGpu on(gpu_);
    must(KILN_DRIVER(cuStreamSynchronize)(stream_));
  }
  void* get() const { return stream_; }

 private:
  void* stream_ = nullptr;
  int gpu_;
};

// Memory of the host from which copies are queued: what is in it when the copy runs is what is copied.
class Pinned {
 public:
  explicit Pinned(const std::vector<float>& values) : count_(values.size()) {
    const OnGpu on(0);
    must(KILN_DRIVER(cuMemHostAlloc)(&memory_, count_ * sizeof(float), 0));
    set(values);
  }
  ~Pinned() { KILN_DRIVER(cuMemFreeHost)(memory_); }
  Pinned(const Pinned&) = delete;
  void set(const std::vector<float>& values) { std::memcpy(memory_, values.data(), count_ * sizeof(float)); }
  void copy_to(const GpuTensor& to, void* stream) const {
    const OnGpu on(0);
    must(KILN_DRIVER(cuMemcpyHtoDAsync_v2)(to.memory(), memory_, count_ * sizeof(float), stream));
  }

 private:
  void* memory_ = nullptr;
  size_t count_;
};

}  // namespace kiln_test
