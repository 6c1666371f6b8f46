// A GPU of this machine: its context, its memory, code loaded into it, queues of work.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "cuda_device/driver.h"
#include "kiln/device_library.h"
#include "package/device_code.h"

namespace kiln::cuda {

class Gpu {
 public:
  static Gpu& get(int index);  // made when it is first asked for. Throws K0773, K0774

  int index() const { return index_; }
  int multiprocessors() const { return multiprocessors_; }
  std::string text() const;                                      // "cuda:0 (NVIDIA H200, sm_90)"
  size_t choose(const std::vector<std::string>& targets) const;  // throws K0775

  void* allocate(size_t bytes);  // nullptr: there is no memory
  void release(void* memory, size_t bytes);
  void copy(void* to, const void* from, size_t bytes, int direction);

  // Throws unless the call went well: K0650 for memory, K0777 where the context is lost with all that was in it, else
  // K0776.
  void check(Result result, const char* what) const;

  // Makes the GPU's context that of the calling thread while it lives.
  class Current {
   public:
    explicit Current(const Gpu& gpu) { driver().push(gpu.context_); }
    ~Current() {
      Context was = nullptr;
      driver().pop(&was);
    }
    Current(const Current&) = delete;
  };

 private:
  explicit Gpu(int index);
  int index_, device_ = 0, major_ = 0, minor_ = 0, multiprocessors_ = 0;
  std::string name_;
  Context context_ = nullptr;
  std::mutex mutex_;
  std::multimap<size_t, Pointer> kept_;  // memory that was given back, by its size
  size_t kept_bytes_ = 0;
};

// A kernel of a loaded code object.
struct LoadedKernel {
  Function function = nullptr;
  uint32_t threads = 1, team = 1;
  uint32_t buffers = 0, ints = 0;
  uint32_t shared = 0;  // bytes of shared memory that a launch asks for
};

class Code {
 public:
  Code(Gpu& gpu, std::string_view bytes);  // throws K0775, K0778
  ~Code();
  Code(const Code&) = delete;
  const kiln_kernel_table* table() const { return &table_; }
  const LoadedKernel* kernel(const std::string& name) const;

 private:
  Module load_unit(uint32_t unit);
  Gpu& gpu_;
  format::DeviceCode code_;
  std::map<uint32_t, Module> modules_;
  std::map<std::string, LoadedKernel> kernels_;
  std::vector<kiln_kernel_entry> entries_;
  kiln_kernel_table table_{};
};

// The work of one run, on the stream that the others of the process are ordered with.
class WorkQueue {
 public:
  explicit WorkQueue(Gpu& gpu);
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  void launch(const kiln_device_launch& launch);
  void copy(void* to, const void* from, size_t bytes);
  bool synchronise(kiln_error_slot& slot, int32_t& step);  // false: a kernel has raised

 private:
  // As the prelude of CUDA kernels has it.
  struct RaisedError {
    kiln_error_slot slot;
    int32_t step, reserved;
  };
  char* scratch_for(int64_t bytes);
  Gpu& gpu_;
  RaisedError* raised_ = nullptr;  // the host's memory, which kernels see
  Pointer raised_there_ = 0;
  char* scratch_ = nullptr;
  int64_t scratch_bytes_ = 0;
  std::vector<char> arguments_;
};

}  // namespace kiln::cuda
