#include "runtime/companion.h"

#include <dlfcn.h>

#include "base/file.h"

namespace kiln::runtime {

void* open_companion(const char* library, const char* entry, std::vector<std::string>& looked) {
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&open_companion), &here) && here.dli_fname) {
    const std::string folder = parent_path(here.dli_fname);
    looked.push_back(join_path(folder, library));
    looked.push_back(join_path(join_path(folder, "../lib"), library));
  }
  looked.emplace_back(library);
  for (const std::string& place : looked)
    if (void* opened = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL))
      if (void* found = dlsym(opened, entry)) return found;
  return nullptr;
}

}  // namespace kiln::runtime
