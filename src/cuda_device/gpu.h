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
  std::string text() const;  // "cuda:0 (NVIDIA H200, sm_90)"
  kiln_device_facts facts() const;
  size_t choose(const std::vector<std::string>& targets) const;  // throws K0775

  // nullptr: there is no memory. What is allocated while a run is issued (StreamOfRun) is used on its stream, and may
  // be used again there at once when it has been given back; before it is used anywhere else the GPU is waited for.
  void* allocate(size_t bytes);
  void release(void* memory, size_t bytes);
  void settle();  // waits for all that anybody has begun

  // A little of the host's memory that kernels see. Pinning takes a millisecond, however little it is: one page serves
  // many.
  struct Slot {
    void* here = nullptr;
    Pointer there = 0;
  };
  static constexpr size_t slot_bytes = 64;
  Slot take_slot();
  void give_back(const Slot& slot);

  void copy(void* to, const void* from, size_t bytes, int direction);

  // Throws unless the call went well: K0650 for memory, K0777 where the context is lost with all that was in it, else
  // K0776.
  void check(Result result, const char* what) const;

  // Makes the GPU's context that of the calling thread while it lives. Mostly it is already: other libraries of the
  // process use the same one, and asking costs a fraction of pushing.
  class Current {
   public:
    explicit Current(const Gpu& gpu) {
      Context now = nullptr;
      pushed_ = driver().current(&now) != 0 || now != gpu.context_;
      if (pushed_) driver().push(gpu.context_);
    }
    ~Current() {
      Context was = nullptr;
      if (pushed_) driver().pop(&was);
    }
    Current(const Current&) = delete;

   private:
    bool pushed_;
  };

 private:
  explicit Gpu(int index);
  int index_, device_ = 0, major_ = 0, minor_ = 0, multiprocessors_ = 0;
  std::string name_;
  Context context_ = nullptr;
  std::mutex mutex_;
  struct Kept {
    Pointer memory = 0;
    const void* stream = nullptr;
  };
  using KeptBlocks = std::multimap<size_t, Kept>;
  using Streams = std::map<Pointer, const void*>;
  KeptBlocks kept_;       // memory that was given back, by its size
  Streams allocated_on_;  // streams of runs; nullptr: none
  // An output comes and goes with every call: the entry that goes is that of the next to come.
  KeptBlocks::node_type spare_kept_;
  Streams::node_type spare_stream_;
  void note_stream(Pointer memory, const void* stream);
  void keep(size_t bytes, const Kept& kept);
  size_t kept_bytes_ = 0;
  std::vector<Slot> slots_;  // that nobody uses
};

// One name for several streams: each thread has its own.
inline const Stream each_threads_own = reinterpret_cast<Stream>(2);

// While it lives, what this thread allocates is for the stream.
class StreamOfRun {
 public:
  static void set(Stream stream);  // of the run that this thread issues from now on
  static void none();
  static const void* current();  // nullptr: this thread issues no run
};

// A kernel of a loaded code object.
struct LoadedKernel {
  Function function = nullptr;
  uint32_t threads = 1, team = 1;
  uint32_t buffers = 0, ints = 0;
  uint32_t shared = 0;  // bytes of shared memory that a launch asks for
  std::string name;
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

}  // namespace kiln::cuda
