// The work of one run, on a stream: its own order, and that of what the caller put on the stream before and after.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "cuda_device/gpu.h"
#include "cuda_device/replay.h"

namespace kiln::cuda {

class WorkQueue {
 public:
  WorkQueue(Gpu& gpu, uint32_t flags);
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;

  // What follows goes to this stream, after what this queue has put on another one. nullptr: the legacy default stream,
  // with which other streams of the process are ordered unless they were made not to be.
  // False: a kernel of an earlier call has raised.
  bool start(Stream stream, kiln_error_slot& slot, int32_t& step);
  void launch(const kiln_device_launch& launch);
  void copy(void* to, const void* from, size_t bytes);
  bool synchronise(kiln_error_slot& slot, int32_t& step);  // false: a kernel has raised
  // Nobody waits: what comes next on another stream is ordered behind it.
  void finish();

  // Launches between begin and end are those of an earlier time with this key, up to addresses and seed. True: they
  // were replayed, and are not to be made. Where addresses differ they are made, compared with what the graph has, and
  // what differs is changed there.
  bool begin_stretch(uint64_t key, void* const* addresses, size_t count, uint64_t seed);
  void end_stretch();

  void mark(bool end);
  // Between the two marks: what the kernels took, by CUPTI where it is there, else what events around them say.
  double seconds();

 private:
  // As the prelude of CUDA kernels has it.
  struct RaisedError {
    kiln_error_slot slot;
    int32_t step, reserved;
  };
  struct Scratch {
    char* memory = nullptr;
    size_t bytes = 0;
  };
  char* scratch_for(int64_t bytes);
  void launch_now(PreparedLaunch& launch);
  void record_done();
  void stop_timing();
  bool take_raised(kiln_error_slot& slot, int32_t& step);
  Replay& replay_of(uint64_t key);

  Gpu& gpu_;
  const uint32_t flags_;
  const Gpu::Slot slot_;
  Stream stream_ = nullptr;
  Event done_ = nullptr, begin_ = nullptr, end_ = nullptr;
  bool under_way_ = false;         // something was begun since somebody waited
  bool recorded_ = false;          // all of it before done_
  RaisedError* raised_ = nullptr;  // the host's memory, which kernels see
  Pointer raised_there_ = 0;
  // The last one is the largest. Those before stay: graphs have their addresses.
  std::vector<Scratch> scratch_;
  PreparedLaunch launch_;
  std::unique_lock<std::mutex> timing_;  // of CUPTI
  std::vector<std::string> timed_;       // kernels since the first mark
  bool marked_ = false;                  // in this call
  std::map<uint64_t, std::unique_ptr<Replay>> replays_;
  uint64_t clock_ = 0;
  Replay* collecting_ = nullptr;
  std::vector<void*> addresses_;  // of the stretch that is being collected
  uint64_t seed_ = 0;
};

}  // namespace kiln::cuda
