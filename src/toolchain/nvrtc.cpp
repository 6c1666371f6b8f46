#include "toolchain/nvrtc.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "base/environment.h"
#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"

namespace kiln {

// The few functions of the library that are used; handles are pointers there.
class Nvrtc {
 public:
  using Program = void*;
  static std::unique_ptr<Nvrtc> open(const std::string& path) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) return nullptr;
    auto out = std::make_unique<Nvrtc>();
    bool whole = true;
    const auto bind = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      whole &= function != nullptr;
    };
    bind(out->version, "nvrtcVersion");
    bind(out->create, "nvrtcCreateProgram");
    bind(out->destroy, "nvrtcDestroyProgram");
    bind(out->compile, "nvrtcCompileProgram");
    bind(out->log_size, "nvrtcGetProgramLogSize");
    bind(out->log, "nvrtcGetProgramLog");
    bind(out->code_size, "nvrtcGetCUBINSize");
    bind(out->code, "nvrtcGetCUBIN");
    bind(out->ptx_size, "nvrtcGetPTXSize");
    bind(out->ptx, "nvrtcGetPTX");
    bind(out->error_text, "nvrtcGetErrorString");
    int major = 0, minor = 0;
    if (!whole || out->version(&major, &minor) != 0) return nullptr;
    out->identity = str("NVRTC ", major, ".", minor);
    out->path = path;
    return out;
  }

  int (*version)(int*, int*) = nullptr;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*log_size)(Program, size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*code_size)(Program, size_t*) = nullptr;
  int (*code)(Program, char*) = nullptr;
  int (*ptx_size)(Program, size_t*) = nullptr;
  int (*ptx)(Program, char*) = nullptr;
  const char* (*error_text)(int) = nullptr;
  std::string path, identity;
};

namespace {

std::unique_ptr<Nvrtc> look_for_nvrtc(const std::string& wish) {
  if (!wish.empty()) {
    auto found = Nvrtc::open(wish);
    if (!found) fail_user("K0770", str(wish, " is no NVRTC library that can be used (setting nvrtc, KILN_NVRTC)"));
    return found;
  }
  for (const std::string& path : cuda_library_places("nvrtc", "cuda_nvrtc"))
    if (auto found = Nvrtc::open(path)) return found;
  fail_user("K0770",
            "compiling for cuda needs NVRTC, NVIDIA's compiler library (libnvrtc.so), and there is none here. It comes "
            "with the CUDA toolkit (https://developer.nvidia.com/cuda-downloads), or alone from PyPI: 'pip install "
            "nvidia-cuda-nvrtc' (CUDA 13) or 'pip install nvidia-cuda-nvrtc-cu12'. Where it lies elsewhere, set "
            "KILN_NVRTC to the library's path. Neither a GPU nor a driver is needed to compile");
}

std::string image_key(const Nvrtc& nvrtc, const std::vector<std::string>& flags, const std::string& source) {
  Sha256 hash;
  hash.add(nvrtc.identity);
  for (const std::string& flag : flags) hash.add(str("\nflag ", flag));
  hash.add(str("\nsource ", source.size(), "\n")), hash.add(source);
  return hash.hex() + ".cubin";
}

// What the library says of an error: the first lines of it.
std::string first_words(const std::string& text) {
  std::vector<std::string> lines = split(text, '\n');
  if (lines.size() > 12) lines.resize(12);
  return join(lines, "\n  ");
}

class ProgramHolder {
 public:
  explicit ProgramHolder(const Nvrtc& nvrtc) : nvrtc_(nvrtc) {}
  ~ProgramHolder() {
    if (program) nvrtc_.destroy(&program);
  }
  ProgramHolder(const ProgramHolder&) = delete;
  Nvrtc::Program program = nullptr;

 private:
  const Nvrtc& nvrtc_;
};

std::string compiled(const Nvrtc& nvrtc, const std::string& source, size_t unit, const std::vector<std::string>& flags,
                     bool ptx) {
  ProgramHolder holder(nvrtc);
  const std::string name = str("kernels_", unit, ".cu");
  int status = nvrtc.create(&holder.program, source.c_str(), name.c_str(), 0, nullptr, nullptr);
  std::vector<const char*> options;
  for (const std::string& flag : flags) options.push_back(flag.c_str());
  if (status == 0) status = nvrtc.compile(holder.program, static_cast<int>(options.size()), options.data());
  if (status != 0) {
    size_t size = 0;
    std::string log;
    if (holder.program && nvrtc.log_size(holder.program, &size) == 0 && size > 1) {
      log.resize(size);
      nvrtc.log(holder.program, log.data());
      log.resize(size - 1);
    }
    TemporaryDirectory directory("kiln-build");
    write_file_atomic(join_path(directory.path(), name), source);
    fail_user("K0771", str(nvrtc.identity, " (", nvrtc.path, ") failed with ", nvrtc.error_text(status),
                           " on generated code, kept in ", directory.keep(), ":\n  ", first_words(log)));
  }
  size_t size = 0;
  std::string out;
  if ((ptx ? nvrtc.ptx_size : nvrtc.code_size)(holder.program, &size) == 0) out.resize(size);
  if (out.empty() || (ptx ? nvrtc.ptx : nvrtc.code)(holder.program, out.data()) != 0)
    fail_user("K0771", str(nvrtc.identity, " (", nvrtc.path, ") ended without an error and made no code"));
  return out;
}

}  // namespace

const Nvrtc& find_nvrtc(const std::string& wish) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Nvrtc>> known;
  std::lock_guard lock(mutex);
  auto& found = known[wish];
  if (!found) found = look_for_nvrtc(wish);
  return *found;
}
std::string nvrtc_identity(const Nvrtc& nvrtc) { return nvrtc.identity; }
const std::string& nvrtc_path(const Nvrtc& nvrtc) { return nvrtc.path; }

CudaImages build_cuda_images(const Nvrtc& nvrtc, const BuildRequest& request, const std::string& ptx_for,
                             const KernelCache& cache) {
  const size_t units = request.sources.size(), jobs = ptx_for.empty() ? units : 2 * units;
  CudaImages out;
  out.machine_code.resize(units);
  out.ptx.resize(jobs - units);
  std::vector<std::string> ptx_flags = request.flags;
  for (std::string& flag : ptx_flags)
    if (starts_with(flag, "--gpu-architecture=")) flag = "--gpu-architecture=" + ptx_for;
  std::atomic<size_t> next{0}, compiled_here{0};
  std::mutex mutex;
  std::exception_ptr failed;
  int done = 0;
  auto work = [&] {
    for (size_t job = next++; job < jobs; job = next++) {
      const bool ptx = job >= units;
      const size_t unit = ptx ? job - units : job;
      const std::vector<std::string>& flags = ptx ? ptx_flags : request.flags;
      std::string& image = ptx ? out.ptx[unit] : out.machine_code[unit];
      try {
        const std::string key = image_key(nvrtc, flags, request.sources[unit]);
        if (auto found = cache.get(key)) {
          image = std::move(*found);
        } else {
          image = compiled(nvrtc, request.sources[unit], unit, flags, ptx);
          ++compiled_here;
          const std::string not_kept = cache.put(key, image);
          std::lock_guard lock(mutex);
          if (!not_kept.empty()) out.not_kept = not_kept;
        }
        std::lock_guard lock(mutex);
        if (request.progress) request.progress(++done, static_cast<int>(jobs));
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!failed) failed = std::current_exception();
        next = jobs;
      }
    }
  };
  const size_t at_once = std::min<size_t>(jobs, std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::thread> threads;
  for (size_t i = 1; i < at_once; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (failed) std::rethrow_exception(failed);
  out.from_cache = compiled_here == 0;
  return out;
}

}  // namespace kiln
