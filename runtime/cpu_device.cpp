// The CPU: memory is the host's, code is a shared object, a launch spreads items over threads and returns when all are
// done.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "base/made_once.h"
#include "runtime/device.h"
#include "runtime/element.h"
#include "runtime/fault_signals.h"
#include "runtime/parallel.h"
#include "runtime/run.h"

namespace kiln::runtime {
namespace {

// A thread's own, so that neither items nor cache lines meet.
struct alignas(64) ThreadScratch {
  Block memory;
  uint64_t launch = 0;  // the last one that used it
  int64_t kept = -1;    // kiln_kernel_context::kept, of that launch
};

struct Work {
  const Launch& launch;
  kiln_kernel kernel;
  kiln_kernel_context context;
  ThreadScratch* scratch;  // by thread
  uint64_t number;         // of the launch
  std::atomic<bool> failed{false};
};

void run_piece(void* data, int slot, int64_t begin, int64_t end) {
  auto* work = static_cast<Work*>(data);
  if (work->failed.load(std::memory_order_relaxed)) return;
  const Launch& launch = work->launch;
  kiln_kernel_context context = work->context;
  context.thread = static_cast<uint32_t>(slot);
  if (context.scratch_bytes > 0) {
    ThreadScratch& scratch = work->scratch[slot];
    if (scratch.launch != work->number) scratch.launch = work->number, scratch.kept = -1;
    context.scratch = scratch.memory.data(), context.kept = &scratch.kept;
  }
  if (hooks_built && launch.running) [[unlikely]] {
    StepMark mark(launch.running);
    if (work->kernel(&context, launch.buffers, launch.ints, begin, end) != 0)
      work->failed.store(true, std::memory_order_relaxed);
    return;
  }
  if (work->kernel(&context, launch.buffers, launch.ints, begin, end) != 0)
    work->failed.store(true, std::memory_order_relaxed);
}

class CpuQueue final : public Queue {
 public:
  CpuQueue(const Parallel& parallel, const Allocator& allocator) : parallel_(parallel), allocator_(allocator) {}

  bool launch(const Launch& launch) override {
    const auto kernel = reinterpret_cast<kiln_kernel>(const_cast<void*>(launch.kernel));
    const int threads = parallel_.threads();
    kiln_kernel_context context{KILN_KERNEL_ABI_VERSION, 0,           nullptr, launch.scratch,
                                &failure_.slot,          launch.seed, nullptr};
    if (launch.scratch > 0) [[unlikely]] {
      make_scratch(launch, threads);
      context.scratch = scratch_[0].memory.data();
    }
    // The other way than the one before, so that what that one touched last is at hand. Small ones do not count.
    const bool large = launch.items > launch.grain, backwards = launch.turns && large && !backwards_;
    if (large) backwards_ = backwards;
    bool failed;
    if (!large || threads == 1) {
      failed = backwards ? run_backwards(launch, kernel, context)
                         : kernel(&context, launch.buffers, launch.ints, 0, launch.items) != 0;
    } else {
      Work work{launch, kernel, context, scratch_.data(), ++launches_};
      parallel_.run(launch.items, launch.grain, threads, run_piece, &work, backwards);
      failed = work.failed.load(std::memory_order_relaxed);
    }
    if (failed) [[unlikely]]
      failure_.step = launch.step;
    return !failed;
  }

  void copy(void* to, Dims to_strides, const void* from, Dims from_strides, Dims sizes, int64_t item) override {
    strided_copy(to, to_strides, from, from_strides, sizes, item);
  }
  bool synchronise() override { return true; }
  Failure take_failure() override { return std::exchange(failure_, {}); }

 private:
  static bool run_backwards(const Launch& launch, kiln_kernel kernel, const kiln_kernel_context& context) {
    const int64_t piece = std::max<int64_t>(1, launch.items / 16);
    for (int64_t end = launch.items; end > 0; end -= piece)
      if (kernel(&context, launch.buffers, launch.ints, std::max<int64_t>(0, end - piece), end) != 0) return true;
    return false;
  }

  void make_scratch(const Launch& launch, int threads) {
    if (launch.fresh_scratch) scratch_.clear();
    if (scratch_.size() < static_cast<size_t>(threads)) scratch_.resize(static_cast<size_t>(threads));
    for (ThreadScratch& scratch : scratch_) scratch.memory.grow(allocator_, launch.scratch);
  }

  const Parallel& parallel_;
  Allocator allocator_;
  std::vector<ThreadScratch> scratch_;  // by thread
  uint64_t launches_ = 0;               // on several threads
  Failure failure_;
  bool backwards_ = false;  // so went the last large launch
};

class CpuDevice final : public Device {
 public:
  DLDevice id() const override { return {kDLCPU, 0}; }
  bool is_host() const override { return true; }
  bool holds(const DLDevice& tensor) const override { return runtime::is_host(tensor.device_type); }
  Allocator allocator(const Allocator& host) const override { return host; }
  void copy_in(void* to, const void* from, int64_t bytes) const override {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  void copy_out(void* to, const void* from, int64_t bytes) const override { copy_in(to, from, bytes); }
  size_t choose(const std::vector<std::string>& targets, const CpuFeatures& host) const override {
    return choose_allowed_target(targets, host);
  }
  std::unique_ptr<CodeModule> load_code(ByteSpan object, const std::string& label,
                                        const std::string& keep_as) const override {
    return keep_as.empty() ? load_shared_object(object, label) : load_kept_object(object, keep_as);
  }
  std::unique_ptr<Queue> new_queue(const Parallel& parallel, const Allocator& host,
                                   const QueueOptions&) const override {
    return std::make_unique<CpuQueue>(parallel, host);
  }
};

}  // namespace

std::shared_ptr<const Device> cpu_device() {
  static std::atomic<const std::shared_ptr<const Device>*> device;
  return made_once(device, [] { return std::shared_ptr<const Device>(std::make_shared<CpuDevice>()); });
}

}  // namespace kiln::runtime
