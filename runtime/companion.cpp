#include "runtime/companion.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "base/made_once.h"
#include "base/text.h"

namespace kiln::runtime {
namespace {

// In /proc/self/maps a newline of a path is written as \012.
std::string unescaped(std::string_view text) { return replace_all(std::string(text), "\\012", "\n"); }

// The file that this code was mapped from, as the system knows it. The names that the loader keeps are those it was
// given: relative to a directory that the process may have left, or argv[0].
std::string file_of_this_code() {
  const auto here = reinterpret_cast<uintptr_t>(&open_companion);
  std::string maps;
  try {
    maps = read_file("/proc/self/maps");
  } catch (const Error&) {
  }
  for (const std::string& line : split(maps, '\n')) {
    char* end = nullptr;
    const unsigned long long begin = std::strtoull(line.c_str(), &end, 16);
    if (end == line.c_str() || *end != '-' || here < begin || here >= std::strtoull(end + 1, nullptr, 16)) continue;
    const size_t path = line.find('/');
    if (path != std::string::npos) return unescaped(std::string_view(line).substr(path));
  }
  // Without /proc: only a name that does not depend on where the process is.
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&open_companion), &info) && info.dli_fname && info.dli_fname[0] == '/')
    return info.dli_fname;
  return "";
}

// It stays where it is, and in a process that uses a GPU the list of what is mapped is long: milliseconds.
const std::string& known_file_of_this_code() {
  static std::atomic<const std::string*> known;
  return made_once(known, file_of_this_code);
}

// Where the loader looks for libraries (LD_LIBRARY_PATH, run paths, the system's folders), without those that mean the
// current directory: an empty or relative part of LD_LIBRARY_PATH does.
std::vector<std::string> loader_folders() {
  std::vector<std::string> out;
  void* self = dlopen(nullptr, RTLD_LAZY);
  if (!self) return out;
  Dl_serinfo size{};
  if (dlinfo(self, RTLD_DI_SERINFOSIZE, &size) == 0) {
    std::vector<char> memory(size.dls_size);
    auto* paths = reinterpret_cast<Dl_serinfo*>(memory.data());
    paths->dls_size = size.dls_size;
    paths->dls_cnt = size.dls_cnt;
    if (dlinfo(self, RTLD_DI_SERINFO, paths) == 0)
      for (unsigned i = 0; i < paths->dls_cnt; ++i)
        if (paths->dls_serpath[i].dls_name[0] == '/') out.emplace_back(paths->dls_serpath[i].dls_name);
  }
  dlclose(self);
  return out;
}

}  // namespace

void* open_companion(const char* name, const char* entry, std::vector<std::string>& looked) {
  const std::string library = str("lib", name, ".so." KILN_SOVERSION_TEXT);
  if (const std::string file = known_file_of_this_code(); !file.empty()) {
    const std::string folder = parent_path(file);
    looked.push_back(join_path(folder, library));
    looked.push_back(join_path(join_path(folder, "../lib"), library));
  }
  for (const std::string& folder : loader_folders()) looked.push_back(join_path(folder, library));
  for (const std::string& place : looked)
    if (void* opened = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL))
      if (void* found = dlsym(opened, entry)) return found;
  return nullptr;
}

}  // namespace kiln::runtime
