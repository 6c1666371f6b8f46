// A stand-in for NVIDIA's driver (libcuda.so.1), for tests on machines without a GPU. Its machine code is what the
// stand-in for NVRTC makes. The memory of its GPUs may not be touched by the host: it is protected while no kernel
// runs, what nobody wrote there is NaN, and what lies between two allocations is watched: a kernel that writes there
// has made an illegal access, and from then on every call says so, as CUDA's do.
//
// KILN_STAND_IN_GPUS: how many there are (default 1); KILN_STAND_IN_MEMORY: megabytes of each (default 512).
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using Launcher = void (*)(const void*, unsigned, unsigned);
constexpr size_t gap = 256;  // before and after each allocation
constexpr unsigned char untouched = 0xff;
constexpr int illegal_address = 700;

size_t number_of(const char* name, size_t usual) {
  const char* text = std::getenv(name);
  return text && *text ? std::strtoul(text, nullptr, 10) : usual;
}

struct StandIn {
  std::recursive_mutex mutex;
  std::byte* memory = nullptr;
  size_t bytes = number_of("KILN_STAND_IN_MEMORY", 512) << 20, used = 0;
  std::map<std::byte*, size_t> blocks;  // in use
  std::multimap<size_t, std::byte*> given_back;
  int open = 0;
  bool lost = false;

  StandIn() {
    memory =
        static_cast<std::byte*>(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  }
  bool inside(const void* at) const { return at >= memory && at < memory + bytes; }
  static bool clean(const std::byte* from) {
    for (size_t i = 0; i < gap; ++i)
      if (from[i] != std::byte{untouched}) return false;
    return true;
  }
  void look_at_gaps() {
    for (const auto& [at, size] : blocks) lost |= !clean(at - gap) || !clean(at + size);
  }
};
StandIn& stand_in() {
  static auto& one = *new StandIn();
  return one;
}

// Memory can be touched while one of these lives.
class Opened {
 public:
  Opened() : lock_(stand_in().mutex) {
    StandIn& s = stand_in();
    if (s.open++ == 0) mprotect(s.memory, s.bytes, PROT_READ | PROT_WRITE);
  }
  ~Opened() {
    StandIn& s = stand_in();
    if (--s.open == 0) mprotect(s.memory, s.bytes, PROT_NONE);
  }

 private:
  std::lock_guard<std::recursive_mutex> lock_;
};

int status() { return stand_in().lost ? illegal_address : 0; }
thread_local int current_depth = 0;

}  // namespace

EXPORT int cuInit(unsigned) { return 0; }
EXPORT int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
EXPORT int cuGetErrorName(int error, const char** name) {
  *name = error == illegal_address ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : error == 2             ? "CUDA_ERROR_OUT_OF_MEMORY"
                                   : "CUDA_ERROR_UNKNOWN";
  return 0;
}
EXPORT int cuGetErrorString(int error, const char** text) {
  *text = error == illegal_address ? "an illegal memory access was encountered" : "of the stand-in";
  return 0;
}
EXPORT int cuDeviceGetCount(int* count) { return *count = static_cast<int>(number_of("KILN_STAND_IN_GPUS", 1)), 0; }
EXPORT int cuDeviceGet(int* device, int index) { return *device = index, 0; }
EXPORT int cuDeviceGetName(char* name, int size, int) {
  std::strncpy(name, "stand-in", static_cast<size_t>(size));
  return 0;
}
EXPORT int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 16 ? 4 : 0;
  return 0;
}
EXPORT int cuDevicePrimaryCtxRetain(void** context, int device) {
  return *context = reinterpret_cast<void*>(static_cast<uintptr_t>(device + 1)), 0;
}
EXPORT int cuCtxPushCurrent_v2(void*) { return ++current_depth, 0; }
EXPORT int cuCtxPopCurrent_v2(void** context) { return --current_depth, *context = nullptr, 0; }
EXPORT int cuCtxSynchronize() { return status(); }

EXPORT int cuMemAlloc_v2(unsigned long long* out, size_t size) {
  if (current_depth <= 0) return 201;  // no context
  const Opened opened;
  StandIn& s = stand_in();
  if (s.lost) return status();
  size = (size + 255) / 256 * 256;
  std::byte* at = nullptr;
  if (const auto found = s.given_back.find(size); found != s.given_back.end()) {
    at = found->second;
    s.given_back.erase(found);
  } else {
    if (s.used + size + 2 * gap > s.bytes) return 2;
    at = s.memory + s.used + gap;
    s.used += size + 2 * gap;
  }
  std::memset(at - gap, untouched, size + 2 * gap);
  s.blocks[at] = size;
  return *out = reinterpret_cast<unsigned long long>(at), 0;
}
EXPORT int cuMemFree_v2(unsigned long long pointer) {
  const Opened opened;
  StandIn& s = stand_in();
  const auto found = s.blocks.find(reinterpret_cast<std::byte*>(pointer));
  if (found == s.blocks.end()) return 1;
  s.given_back.emplace(found->second, found->first);
  s.blocks.erase(found);
  return status();
}
EXPORT int cuMemHostAlloc(void** out, size_t size, unsigned) { return *out = std::calloc(1, size), 0; }
EXPORT int cuMemFreeHost(void* memory) { return std::free(memory), 0; }
EXPORT int cuMemHostGetDevicePointer_v2(unsigned long long* out, void* memory, unsigned) {
  return *out = reinterpret_cast<unsigned long long>(memory), 0;
}

namespace {
int copied(void* to, const void* from, size_t size, bool to_gpu, bool from_gpu) {
  const Opened opened;
  const StandIn& s = stand_in();
  if (s.lost) return status();
  if (s.inside(to) != to_gpu || s.inside(from) != from_gpu) return 1;
  std::memcpy(to, from, size);
  return 0;
}
}  // namespace
EXPORT int cuMemcpyHtoD_v2(unsigned long long to, const void* from, size_t size) {
  return copied(reinterpret_cast<void*>(to), from, size, true, false);
}
EXPORT int cuMemcpyDtoH_v2(void* to, unsigned long long from, size_t size) {
  return copied(to, reinterpret_cast<void*>(from), size, false, true);
}
EXPORT int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t size, void*) {
  return copied(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), size, true, true);
}

EXPORT int cuModuleLoadDataEx(void** module, const void* image, unsigned, int*, void**) {
  if (std::memcmp(image, ELFMAG, SELFMAG) != 0) return 200;
  Elf64_Ehdr head;
  std::memcpy(&head, image, sizeof head);
  const size_t size = head.e_shoff + size_t{head.e_shnum} * head.e_shentsize;
  const int file = memfd_create("kiln-stand-in", MFD_CLOEXEC);
  for (size_t done = 0; done < size;) {
    const ssize_t n = write(file, static_cast<const char*>(image) + done, size - done);
    if (n <= 0) return 200;
    done += static_cast<size_t>(n);
  }
  *module = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  return *module ? 0 : 200;  // the file stays open: the loader takes two of one name for one
}
EXPORT int cuModuleUnload(void* module) { return dlclose(module), 0; }
EXPORT int cuModuleGetFunction(void** function, void* module, const char* name) {
  *function = dlsym(module, (std::string("emulated_") + name).c_str());
  return *function ? 0 : 500;
}
// As much as the largest GPU has; the emulation has a place of that size.
EXPORT int cuFuncSetAttribute(void*, int attribute, int value) {
  constexpr int most_dynamic_shared_bytes = 8, most = 227 << 10;
  return attribute == most_dynamic_shared_bytes && value <= most ? 0 : 1;
}

EXPORT int cuLaunchKernel(void* function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                          unsigned, void*, void**, void** extra) {
  if (current_depth <= 0) return 201;
  const Opened opened;
  StandIn& s = stand_in();
  if (s.lost) return status();
  reinterpret_cast<Launcher>(function)(extra[1], blocks, threads);
  s.look_at_gaps();
  return 0;
}
EXPORT int cuStreamSynchronize(void*) { return status(); }
