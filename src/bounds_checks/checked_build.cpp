#include "bounds_checks/checked_build.h"

#include <dlfcn.h>

#include "base/error.h"
#include "codegen/backend.h"
#include "package/device_code.h"
#include "toolchain/compiler.h"
#include "toolchain/nvrtc.h"

namespace kiln {

CheckedBuild::CheckedBuild(const std::vector<std::string>& units, std::vector<std::string> flags, int lanes,
                           const std::string& compiler) {
  BuildRequest build;
  for (const std::string& unit : units)
    build.sources.push_back(codegen::cpu_backend().with_checked_accesses(unit, lanes));
  build.flags = std::move(flags);
  const KernelCache cache(KernelCache::default_directory());
  const std::string path = join_path(folder_.path(), "checked.so");
  write_file_atomic(path, build_shared_object(find_compiler(compiler), build, cache).shared_object);
  handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle_) fail_user("K0544", str("the instrumented kernels cannot be loaded: ", dlerror()));
}

std::string checked_device_code(const std::vector<std::string>& units, std::vector<std::string> flags,
                                std::string_view object, const std::string& nvrtc) {
  format::DeviceCode code;
  if (!format::read_device_code(object, code))
    fail_user("K0778", "the code for the GPU in this package is damaged, or of another version of Kiln");
  BuildRequest build;
  for (const std::string& unit : units)
    build.sources.push_back(codegen::backend_for(DeviceType::cuda).with_checked_accesses(unit, 1));
  build.flags = std::move(flags);
  const KernelCache cache(KernelCache::default_directory());
  const CudaImages built = build_cuda_images(find_nvrtc(nvrtc), build, "", cache);
  code.images.clear();
  for (size_t i = 0; i < built.machine_code.size(); ++i)
    code.images.push_back({static_cast<uint32_t>(i), format::ImageKind::machine_code, built.machine_code[i]});
  return format::write_device_code(code);
}

CheckedBuild::~CheckedBuild() { dlclose(handle_); }

kiln_kernel CheckedBuild::function(const char* symbol) const {
  return reinterpret_cast<kiln_kernel>(dlsym(handle_, symbol));
}

}  // namespace kiln
