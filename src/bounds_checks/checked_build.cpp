#include "bounds_checks/checked_build.h"

#include <dlfcn.h>

#include "base/error.h"
#include "codegen/backend.h"
#include "toolchain/compiler.h"

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

CheckedBuild::~CheckedBuild() { dlclose(handle_); }

kiln_kernel CheckedBuild::function(const char* symbol) const {
  return reinterpret_cast<kiln_kernel>(dlsym(handle_, symbol));
}

}  // namespace kiln
