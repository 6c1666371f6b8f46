// CUPTI, NVIDIA's library that watches a GPU: its own times of each kernel, from its first block to its last. Opened
// when somebody profiles, where it is; never linked.
#pragma once
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace kiln::cuda {

class Cupti {
 public:
  // Opened at the first call. nullptr: there is none, it does not go with the driver, or somebody else in this process
  // has opened it (a process has one that listens, and PyTorch's profiler does).
  static Cupti* get();
  static const char* clock();  // what kernels are timed by, with it or without

  void wake();  // kernels are recorded from now on
  void rest();  // and no more: a kernel that is recorded takes longer to launch
  // How long the kernels of these names ran that were recorded since the last call, in seconds; waits for none. Below
  // 0: not all of them were.
  double seconds_of(const std::vector<std::string>& names);
  std::mutex& mutex() { return mutex_; }  // held by the one whose kernels are timed

 private:
  Cupti() = default;
  bool open(const std::string& path);
  static void give_buffer(unsigned char** buffer, size_t* bytes, size_t* most_records);
  static void take_buffer(void* context, unsigned stream, unsigned char* buffer, size_t bytes, size_t valid);

  struct Record {
    std::string name;
    double seconds;
  };
  using Request = void (*)(unsigned char**, size_t*, size_t*);
  using Complete = void (*)(void*, unsigned, unsigned char*, size_t, size_t);
  int (*register_callbacks_)(Request, Complete) = nullptr;
  int (*enable_)(int) = nullptr;
  int (*disable_)(int) = nullptr;
  int (*flush_)(unsigned) = nullptr;
  int (*next_record_)(unsigned char*, size_t, void**) = nullptr;
  std::mutex mutex_, records_mutex_;
  std::vector<Record> records_;
  bool awake_ = false, missed_ = false;
};

}  // namespace kiln::cuda
