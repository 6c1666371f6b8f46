// An NVRTC that compiles something else than it is given: what KILN_FAULTY_FROM, a regular expression, first finds in
// the source of the kernel KILN_FAULTY_KERNEL is replaced by KILN_FAULTY_TO. The work is done by KILN_FAULTY_NVRTC, the
// stand-in or NVIDIA's. So a package gets machine code with a fault that neither its loops nor its sources have.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <string>

namespace {

template <class F>
F* real(const char* name) {
  static void* library = dlopen(std::getenv("KILN_FAULTY_NVRTC"), RTLD_NOW | RTLD_LOCAL);
  return library ? reinterpret_cast<F*>(dlsym(library, name)) : nullptr;
}

std::string with_fault(std::string source) {
  const char *from = std::getenv("KILN_FAULTY_FROM"), *to = std::getenv("KILN_FAULTY_TO"),
             *kernel = std::getenv("KILN_FAULTY_KERNEL");
  if (!from || !to) return source;
  // From the head of the kernel on; without one, anywhere.
  size_t begin = 0;
  if (kernel && *kernel) {
    begin = source.find(std::string("void __launch_bounds__("));
    while (begin != std::string::npos) {
      const size_t open = source.find('{', begin);
      if (source.substr(begin, open - begin).find(kernel) != std::string::npos) break;
      begin = source.find("void __launch_bounds__(", begin + 1);
    }
    if (begin == std::string::npos) return source;
  }
  const std::regex pattern(from);
  const size_t end = std::min(source.find("void __launch_bounds__(", begin + 1), source.size());
  const std::string body = source.substr(begin, end - begin);
  if (!std::regex_search(body, pattern)) return source;
  source = source.substr(0, begin) + std::regex_replace(body, pattern, to, std::regex_constants::format_first_only) +
           source.substr(end);
  if (const char* note = std::getenv("KILN_FAULTY_NOTE")) {  // that the text was there
    if (FILE* file = std::fopen(note, "w")) std::fclose(file);
  }
  return source;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT int nvrtcVersion(int* a, int* b) { return real<int(int*, int*)>("nvrtcVersion")(a, b); }
EXPORT const char* nvrtcGetErrorString(int e) { return real<const char*(int)>("nvrtcGetErrorString")(e); }
EXPORT int nvrtcCreateProgram(void** out, const char* source, const char* name, int count, const char* const* headers,
                              const char* const* names) {
  return real<int(void**, const char*, const char*, int, const char* const*, const char* const*)>("nvrtcCreateProgram")(
      out, with_fault(source).c_str(), name, count, headers, names);
}
EXPORT int nvrtcDestroyProgram(void** p) { return real<int(void**)>("nvrtcDestroyProgram")(p); }
EXPORT int nvrtcCompileProgram(void* p, int count, const char* const* options) {
  return real<int(void*, int, const char* const*)>("nvrtcCompileProgram")(p, count, options);
}
#define FORWARD(name, type) \
  EXPORT int name(void* p, type to) { return real<int(void*, type)>(#name)(p, to); }
FORWARD(nvrtcGetProgramLogSize, size_t*)
FORWARD(nvrtcGetProgramLog, char*)
FORWARD(nvrtcGetCUBINSize, size_t*)
FORWARD(nvrtcGetCUBIN, char*)
FORWARD(nvrtcGetPTXSize, size_t*)
FORWARD(nvrtcGetPTX, char*)
