// What holds a plan's memory and runs its kernels. The CPU is the first (runtime/cpu_device.cpp).
//
// Two rules make another one possible:
// - Nobody but the device touches a buffer's memory. Who wants to look at it (an observer, a library kernel, a
//   predicate) asks Run for a host pointer: the memory itself where the device's memory is the host's, else a copy.
// - Work is queued. What Queue::launch and Queue::copy begin may still be under way when they return (the lists that
//   they were given may not be used any more); before the host looks at memory, gives some back, or the call returns,
//   it synchronises.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/cpu_levels.h"
#include "kiln/kernel_abi.h"
#include "runtime/code_loader.h"
#include "runtime/memory.h"
#include "runtime/strided_copy.h"

namespace kiln::runtime {

class Parallel;
class RunningStep;

struct Launch {
  const void* kernel;  // what the code object's symbol gave
  void* const* buffers;
  const int64_t* ints;
  size_t buffer_count, int_count;
  int64_t items, grain;
  int64_t scratch;  // bytes for each thread
  bool turns;       // items forwards and backwards in turns
  uint64_t seed;
  int32_t step;                // its position
  bool fresh_scratch;          // new memory, in which nothing of an earlier launch is left
  const RunningStep* running;  // what a fault handler names; nullptr: nobody watches
};

// What a kernel raised, and in which step.
struct Failure {
  int32_t step = -1;
  kiln_error_slot slot{};
};

// Launches that are under way: their number, and the positions of the first and the last step.
struct UnderWay {
  int64_t launches = 0;
  int32_t first = -1, last = -1;
};

struct QueueOptions {
  bool graphs = true;     // stretches of launches that come again may be replayed as one
  bool blocking = false;  // each launch is waited for
};

// The work of one run, in order.
class Queue {
 public:
  virtual ~Queue() = default;
  // A call begins, on the caller's stream (nullptr: the device's default one), and ends. False: a kernel of an earlier
  // call, for which nobody has waited, has raised.
  virtual bool start(void*) { return true; }
  virtual void finish() noexcept {}
  // The launches until end_stretch are those that there were when the key was last given, up to the buffers' addresses
  // and the seed. True: they are under way already, and are not to be made.
  virtual bool begin_stretch(uint64_t, const std::vector<void*>&, uint64_t, const UnderWay&) { return false; }
  virtual void end_stretch() {}
  // The device's own time from here to the second mark. 0: it has no clock.
  virtual void mark(bool) {}
  virtual double seconds() { return 0; }
  virtual UnderWay under_way() const { return {}; }
  // False: a kernel has raised, this one or one before it.
  virtual bool launch(const Launch& launch) = 0;
  // Both in the device's memory; elements of `item` bytes, strides in elements.
  virtual void copy(void* to, Dims to_strides, const void* from, Dims from_strides, Dims sizes, int64_t item) = 0;
  virtual bool synchronise() = 0;      // waits for all that was begun; false: as launch
  virtual Failure take_failure() = 0;  // of the first kernel that raised
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DLDevice id() const = 0;
  virtual bool is_host() const = 0;                      // its memory is the host's
  virtual bool holds(const DLDevice& tensor) const = 0;  // whether kernels can use a tensor that says it is there
  // Where its buffers come from. `host`: the embedder's allocator, for a device whose memory is the host's.
  virtual Allocator allocator(const Allocator& host) const = 0;
  // Between host and device; done when they return. Nothing that is queued may use the memory.
  virtual void copy_in(void* to, const void* from, int64_t bytes) const = 0;
  virtual void copy_out(void* to, const void* from, int64_t bytes) const = 0;
  // Which of the targets that a package has code for runs best here.
  virtual size_t choose(const std::vector<std::string>& targets, const CpuFeatures& host) const = 0;
  // `keep_as`: the path of a file that the code is kept in; empty: nowhere.
  virtual std::unique_ptr<CodeModule> load_code(ByteSpan object, const std::string& label,
                                                const std::string& keep_as) const = 0;
  virtual std::unique_ptr<Queue> new_queue(const Parallel& parallel, const Allocator& host,
                                           const QueueOptions& options) const = 0;
  // Copies of constants, all at once. Done when it returns.
  struct Upload {
    void* to;
    const void* from;
    size_t bytes;
  };
  virtual void upload(const std::vector<Upload>& pieces) const {
    for (const Upload& piece : pieces) copy_in(piece.to, piece.from, static_cast<int64_t>(piece.bytes));
  }
  virtual void settle() const {}  // waits for all that anybody has begun there
  // What its units and its memory can do at most. False: it does not say.
  virtual bool limits(double& /*gflops*/, double& /*gbs*/) const { return false; }
  virtual const char* clock() const { return "the host's clock"; }  // what kernels are timed by

  // Copies between tensors, each on this device or on the host, by way of the host; what lies between the elements of
  // the destination stays.
  void copy(void* to, bool to_here, Dims to_strides, const void* from, bool from_here, Dims from_strides, Dims sizes,
            int64_t item) const;
};

std::shared_ptr<const Device> cpu_device();
// A GPU, by its number; -1: the first. Throws K0772 without libkiln_cuda.so, and what that says of this machine.
std::shared_ptr<const Device> cuda_device(int index);

}  // namespace kiln::runtime
