// One kernel run on the GPU that a package runs on, on values of the host: a kernel that was built again with what is
// between its operators stored (debug/exposed_kernel.h).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "types/tensor.h"

struct kiln_device_library;

namespace kiln {

class GpuKernel {
 public:
  // `object`: a code object with a kernel of this name, for the GPU of this number. Throws K0786 where no package has
  // run on a GPU in this process, and what the device's library says.
  GpuKernel(int gpu, const std::string& object, const std::string& name);
  ~GpuKernel();
  GpuKernel(const GpuKernel&) = delete;
  GpuKernel& operator=(const GpuKernel&) = delete;

  struct Launch {
    std::vector<Tensor*> buffers;  // copied there and back
    std::vector<int64_t> ints;
    int64_t items = 0, scratch = 0;
    uint64_t seed = 0;
  };
  void run(const Launch& launch);

 private:
  const kiln_device_library* library_ = nullptr;
  void *device_ = nullptr, *code_ = nullptr;
  const void* kernel_ = nullptr;
};

}  // namespace kiln
