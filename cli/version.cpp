#include <dlfcn.h>

#include "base/cpu_levels.h"
#include "base/error.h"
#include "command.h"
#include "kiln/kernel_abi.h"
#include "kiln/kiln.h"
#include "toolchain/compiler.h"

namespace kiln::cli {
namespace {

std::string compiler_text() {
  try {
    Settings settings(Phase::compile);
    settings.read_environment();
    const Compiler compiler = find_compiler(settings.get_string("compiler"));
    return str(compiler.identity, " (", compiler.path, ")");
  } catch (const Error& error) {
    return str("none: ", error.message());
  }
}

std::string cpu_text() {
  const CpuFeatures found = processor_features();
  const std::string level = best_cpu_level(found);
  std::string features;
  for (const char* name : {"sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl",
                           "avx512vnni", "avx512bf16", "amx-tile", "amx-bf16", "amx-int8"})
    if (found.contains(name)) features += str(" ", name);
  return str(level.empty() ? "not x86-64" : level, features.empty() ? "" : ":", features);
}

// A shared library that may be there; nothing of it is needed to build or to start.
class OptionalLibrary {
 public:
  explicit OptionalLibrary(const std::vector<const char*>& names) {
    for (const char* name : names) {
      if (!handle_) handle_ = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    }
  }
  ~OptionalLibrary() {
    if (handle_) dlclose(handle_);
  }
  OptionalLibrary(const OptionalLibrary&) = delete;
  template <class Function>
  Function* find(const char* name) const {
    return handle_ ? reinterpret_cast<Function*>(dlsym(handle_, name)) : nullptr;
  }

 private:
  void* handle_ = nullptr;
};

std::string nvrtc_text() {
  const OptionalLibrary library({"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"});
  int major = 0, minor = 0;
  auto* version = library.find<int(int*, int*)>("nvrtcVersion");
  return version && version(&major, &minor) == 0 ? str(major, ".", minor) : "not found";
}

std::string driver_text() {
  const OptionalLibrary library({"libcuda.so.1", "libcuda.so"});
  auto* initialise = library.find<int(unsigned)>("cuInit");
  auto* version = library.find<int(int*)>("cuDriverGetVersion");
  auto* count = library.find<int(int*)>("cuDeviceGetCount");
  int number = 0, devices = 0;
  if (!version || version(&number) != 0) return "not found";
  std::string text = str("CUDA ", number / 1000, ".", number % 1000 / 10);
  if (!initialise || initialise(0) != 0 || !count || count(&devices) != 0) return text + ", no usable device";
  return str(text, ", ", devices, devices == 1 ? " device" : " devices");
}

}  // namespace

std::string version_text() {
  return str("kiln ", kiln_version(), "\n", "C interface ", kiln_api_version(), ", kernel ABI ",
             KILN_KERNEL_ABI_VERSION, "\n", "C++ compiler: ", compiler_text(), "\n", "CPU: ", cpu_text(), "\n",
             "NVRTC: ", nvrtc_text(), "\n", "NVIDIA driver: ", driver_text(), "\n");
}

}  // namespace kiln::cli
