#include "base/cuda_architecture.h"

#include <dlfcn.h>

namespace kiln {

std::string cuda_architecture() {
  static const std::string found = [] {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver) return std::string();
    const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
    const auto get = reinterpret_cast<int (*)(int*, int)>(dlsym(driver, "cuDeviceGet"));
    const auto attribute = reinterpret_cast<int (*)(int*, int, int)>(dlsym(driver, "cuDeviceGetAttribute"));
    constexpr int capability_major = 75, capability_minor = 76;
    int device = 0, major = 0, minor = 0;
    if (!init || !get || !attribute || init(0) != 0 || get(&device, 0) != 0 ||
        attribute(&major, capability_major, device) != 0 || attribute(&minor, capability_minor, device) != 0)
      return std::string();
    return "sm_" + std::to_string(major) + std::to_string(minor);
  }();
  return found;
}

}  // namespace kiln
