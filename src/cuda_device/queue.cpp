#include "cuda_device/queue.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "cuda_device/cupti.h"

namespace kiln::cuda {
namespace {

constexpr size_t most_replays = 64;  // of one queue; the one that was used longest ago goes
constexpr unsigned event_without_time = 2;
const Stream legacy_by_name = reinterpret_cast<Stream>(1);  // another name of the stream that has none

}  // namespace

WorkQueue::WorkQueue(Gpu& gpu, uint32_t flags) : gpu_(gpu), flags_(flags), slot_(gpu.take_slot()) {
  static_assert(sizeof(RaisedError) <= Gpu::slot_bytes);
  const Gpu::Current current(gpu);
  raised_ = new (slot_.here) RaisedError{};
  raised_there_ = slot_.there;
  gpu.check(driver().new_event(&done_, event_without_time), "cuEventCreate");
}

WorkQueue::~WorkQueue() {
  const Gpu::Current current(gpu_);
  if (recorded_)
    driver().synchronise_event(done_);
  else if (under_way_)
    driver().synchronise_context();  // the stream may be gone
  replays_.clear();
  for (const Scratch& scratch : scratch_) gpu_.release(scratch.memory, scratch.bytes);
  for (Event event : {done_, begin_, end_})
    if (event) driver().free_event(event);
  gpu_.give_back(slot_);
}

bool WorkQueue::start(Stream stream, kiln_error_slot& slot, int32_t& step) {
  collecting_ = nullptr;  // of a call that failed
  stop_timing();
  if (std::exchange(marked_, false) && Cupti::get()) Cupti::get()->rest();
  if (stream == legacy_by_name) stream = nullptr;
  StreamOfRun::set(stream);
  if (under_way_ && (stream != stream_ || stream == each_threads_own)) {
    const Gpu::Current current(gpu_);
    if (!recorded_ && stream_ == nullptr) record_done();
    if (recorded_)
      gpu_.check(driver().wait_for(stream, done_, 0), "cuStreamWaitEvent");
    else
      gpu_.settle();  // a call failed half-way; its stream may be gone
  }
  stream_ = stream;
  return take_raised(slot, step);
}

// The default stream is always there: its event is recorded when a call comes on another one, mostly never.
void WorkQueue::finish() {
  StreamOfRun::none();
  if (!under_way_ || stream_ == nullptr) return;
  const Gpu::Current current(gpu_);
  record_done();
}

void WorkQueue::record_done() {
  gpu_.check(driver().record(done_, stream_), "cuEventRecord");
  recorded_ = true;
}

char* WorkQueue::scratch_for(int64_t bytes) {
  const auto wanted = static_cast<size_t>(bytes);
  if (!scratch_.empty() && scratch_.back().bytes >= wanted) return scratch_.back().memory;
  const size_t more = scratch_.empty() ? wanted : std::max(wanted, 2 * scratch_.back().bytes);
  auto* memory = static_cast<char*>(gpu_.allocate(more));
  if (!memory) gpu_.check(out_of_memory, "scratch");
  scratch_.push_back({memory, more});
  return memory;
}

void WorkQueue::launch(const kiln_device_launch& launch) {
  const Gpu::Current current(gpu_);
  const auto& kernel = *static_cast<const LoadedKernel*>(launch.kernel);
  const int64_t at_once = kernel.threads / kernel.team;
  int64_t blocks = (launch.items - 1) / at_once + 1;
  constexpr int64_t most_blocks = INT32_MAX;
  blocks = std::min(blocks, launch.scratch > 0 ? int64_t{8} * gpu_.multiprocessors() : most_blocks);
  const int64_t scratch = (launch.scratch + 63) / 64 * 64;
  PreparedLaunch& to = collecting_ ? collecting_->next() : launch_;
  to.function = kernel.function;
  to.blocks = static_cast<unsigned>(blocks), to.threads = kernel.threads, to.shared = kernel.shared;
  // As struct kiln_arguments of the kernels' prelude.
  to.arguments.clear();
  auto put = [&](auto value) {
    const char* bytes = reinterpret_cast<const char*>(&value);
    to.arguments.insert(to.arguments.end(), bytes, bytes + sizeof value);
  };
  put(launch.items), put(launch.seed), put(raised_there_);
  put(scratch > 0 ? scratch_for(blocks * at_once * scratch) : nullptr);
  put(scratch), put(launch.step), put(int32_t{0});
  for (size_t i = 0; i < launch.buffer_count; ++i) put(launch.buffers[i]);
  if (launch.buffer_count == 0) put(static_cast<void*>(nullptr));
  for (size_t i = 0; i < launch.int_count; ++i) put(launch.ints[i]);
  if (launch.int_count == 0) put(int64_t{0});
  if (timing_.owns_lock()) timed_.push_back(kernel.name);
  if (!collecting_) launch_now(to);
}

void WorkQueue::launch_now(PreparedLaunch& launch) {
  size_t size = launch.arguments.size();
  void *const buffer_pointer = reinterpret_cast<void*>(1), *const buffer_size = reinterpret_cast<void*>(2);
  void* extra[] = {buffer_pointer, launch.arguments.data(), buffer_size, &size, nullptr};
  under_way_ = true, recorded_ = false;
  gpu_.check(driver().launch(launch.function, launch.blocks, 1, 1, launch.threads, 1, 1, launch.shared, stream_,
                             nullptr, extra),
             "cuLaunchKernel");
}

void WorkQueue::copy(void* to, const void* from, size_t bytes) {
  const Gpu::Current current(gpu_);
  under_way_ = true, recorded_ = false;
  gpu_.check(driver().copy_within(reinterpret_cast<Pointer>(to), reinterpret_cast<Pointer>(from), bytes, stream_),
             "cuMemcpyDtoDAsync");
}

bool WorkQueue::take_raised(kiln_error_slot& slot, int32_t& step) {
  const auto* raised = static_cast<const volatile RaisedError*>(raised_);
  if (raised->slot.raised == 0) return true;
  slot = raised_->slot, step = raised_->step;
  *raised_ = {};
  return false;
}

bool WorkQueue::synchronise(kiln_error_slot& slot, int32_t& step) {
  const Gpu::Current current(gpu_);
  if (recorded_)
    gpu_.check(driver().synchronise_event(done_), "cuEventSynchronize");
  else if (under_way_)
    gpu_.check(driver().synchronise_stream(stream_), "cuStreamSynchronize");
  under_way_ = recorded_ = false;
  return take_raised(slot, step);
}

Replay& WorkQueue::replay_of(uint64_t key) {
  auto& found = replays_[key];
  if (!found) {
    found = std::make_unique<Replay>();
    if (replays_.size() > most_replays) {
      auto oldest = std::min_element(replays_.begin(), replays_.end(), [](const auto& a, const auto& b) {
        return (a.second->times ? a.second->last_used : UINT64_MAX) <
               (b.second->times ? b.second->last_used : UINT64_MAX);
      });
      replays_.erase(oldest);
    }
  }
  found->last_used = ++clock_;
  ++found->times;
  return *found;
}

bool WorkQueue::begin_stretch(uint64_t key, void* const* addresses, size_t count, uint64_t seed) {
  if ((flags_ & KILN_QUEUE_GRAPHS) == 0 || !driver().has_graphs()) return false;
  const Gpu::Current current(gpu_);
  Replay& replay = replay_of(key);
  if (replay.fits(addresses, count, seed)) {
    under_way_ = true, recorded_ = false;
    gpu_.check(replay.run(stream_), "cuGraphLaunch");
    return true;
  }
  if (replay.times < 2 || replay.impossible) return false;  // what comes once is not worth a graph
  addresses_.assign(addresses, addresses + count);
  seed_ = seed;
  replay.start_collecting();
  collecting_ = &replay;
  return false;
}

void WorkQueue::end_stretch() {
  if (!collecting_) return;
  const Gpu::Current current(gpu_);
  Replay& replay = *collecting_;
  collecting_ = nullptr;
  replay.end_collecting();
  if (replay.take(replay.collected, addresses_, seed_) == 0) {
    under_way_ = true, recorded_ = false;
    return gpu_.check(replay.run(stream_), "cuGraphLaunch");
  }
  // No memory for a graph, say. Kernels that were launched one by one until now still can be.
  replay.impossible = true;
  for (PreparedLaunch& launch : replay.collected) launch_now(launch);
  replay.collected.clear();
}

void WorkQueue::mark(bool end) {
  const Gpu::Current current(gpu_);
  if (!end) {
    marked_ = true;
    stop_timing();
    if (Cupti* const cupti = Cupti::get()) {
      timing_ = std::unique_lock(cupti->mutex());
      cupti->wake();
    }
  }
  Event& event = end ? end_ : begin_;
  if (!event) gpu_.check(driver().new_event(&event, 0), "cuEventCreate");
  gpu_.check(driver().record(event, stream_), "cuEventRecord");
}

double WorkQueue::seconds() {
  const Gpu::Current current(gpu_);
  float milliseconds = 0;
  gpu_.check(driver().synchronise_event(end_), "cuEventSynchronize");
  gpu_.check(driver().elapsed(&milliseconds, begin_, end_), "cuEventElapsedTime");
  const double by_cupti = timing_.owns_lock() && !timed_.empty() ? Cupti::get()->seconds_of(timed_) : -1;
  stop_timing();
  return by_cupti >= 0 ? by_cupti : static_cast<double>(milliseconds) * 1e-3;
}

void WorkQueue::stop_timing() {
  if (timing_.owns_lock()) timing_.unlock();
  timed_.clear();
}

}  // namespace kiln::cuda
