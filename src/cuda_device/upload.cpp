#include "cuda_device/upload.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/error.h"

namespace kiln::cuda {
namespace {

constexpr size_t part_bytes = 2 << 20;      // smaller ones wait for the driver more than for the copies
constexpr size_t worth_threads = 16 << 20;  // below, pinning memory costs more than it saves
constexpr size_t most_threads = 8;

struct Part {
  Pointer to;
  const std::byte* from;
  size_t bytes;
};

// The pages of a mapped file, all at once: one by one, as a copy would meet them, they take longer than the copy.
void bring_pages(const std::byte* from, size_t bytes) {
#ifdef MADV_POPULATE_READ
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)), at = reinterpret_cast<uintptr_t>(from);
  const uintptr_t begin = at / page * page, end = (at + bytes + page - 1) / page * page;
  madvise(reinterpret_cast<void*>(begin), end - begin,
          MADV_POPULATE_READ);  // an old kernel refuses, and nothing is lost
#else
  (void)from, (void)bytes;
#endif
}

// Pinned memory in pieces of a part. Pinning one takes as long as sending thirty: it is kept for the next load.
class Pinned {
 public:
  static Pinned& get() {
    static auto& only = *new Pinned;  // for ever: other threads may be loading when the process ends
    return only;
  }
  void* take(const Gpu& gpu) {
    {
      std::lock_guard lock(mutex_);
      if (!kept_.empty()) {
        void* memory = kept_.back();
        kept_.pop_back();
        return memory;
      }
    }
    constexpr unsigned for_all_gpus = 1;
    void* memory = nullptr;
    gpu.check(driver().host_allocate(&memory, part_bytes, for_all_gpus), "cuMemHostAlloc");
    return memory;
  }
  void give_back(void* memory) {
    {
      std::lock_guard lock(mutex_);
      if (kept_.size() < 2 * most_threads) return kept_.push_back(memory);
    }
    driver().host_release(memory);
  }

 private:
  std::mutex mutex_;
  std::vector<void*> kept_;
};

// One thread's share: while one buffer is sent the other is filled.
class Sender {
 public:
  explicit Sender(Gpu& gpu) : gpu_(gpu) {}
  ~Sender() {
    if (stream_) driver().synchronise_stream(stream_);
    for (Buffer& buffer : buffers_) {
      if (buffer.sent) driver().free_event(buffer.sent);
      if (buffer.memory) Pinned::get().give_back(buffer.memory);
    }
    if (stream_) driver().free_stream(stream_);
  }
  Sender(const Sender&) = delete;

  void send(const Part& part) {
    if (!stream_) gpu_.check(driver().new_stream(&stream_, not_ordered_with_others), "cuStreamCreate");
    Buffer& buffer = buffers_[next_++ % 2];
    if (!buffer.memory) {
      buffer.memory = Pinned::get().take(gpu_);
      gpu_.check(driver().new_event(&buffer.sent, without_time), "cuEventCreate");
    } else {
      gpu_.check(driver().synchronise_event(buffer.sent), "cuEventSynchronize");
    }
    bring_pages(part.from, part.bytes);
    std::memcpy(buffer.memory, part.from, part.bytes);
    gpu_.check(driver().copy_in_queued(part.to, buffer.memory, part.bytes, stream_), "cuMemcpyHtoDAsync");
    gpu_.check(driver().record(buffer.sent, stream_), "cuEventRecord");
  }
  void finish() {
    if (stream_) gpu_.check(driver().synchronise_stream(stream_), "cuStreamSynchronize");
  }

 private:
  static constexpr unsigned not_ordered_with_others = 1, without_time = 2;
  struct Buffer {
    void* memory = nullptr;
    Event sent = nullptr;
  };
  Gpu& gpu_;
  Stream stream_ = nullptr;
  Buffer buffers_[2];
  size_t next_ = 0;
};

}  // namespace

void upload(Gpu& gpu, const kiln_device_upload* pieces, size_t count) {
  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) bytes += pieces[i].bytes;
  if (bytes < worth_threads) {
    for (size_t i = 0; i < count; ++i) gpu.copy(pieces[i].to, pieces[i].from, pieces[i].bytes, KILN_COPY_IN);
    return;
  }
  std::vector<Part> parts;
  for (size_t i = 0; i < count; ++i)
    for (size_t at = 0; at < pieces[i].bytes; at += part_bytes)
      parts.push_back({reinterpret_cast<Pointer>(pieces[i].to) + at, static_cast<const std::byte*>(pieces[i].from) + at,
                       std::min(part_bytes, pieces[i].bytes - at)});
  std::atomic<size_t> next{0};
  std::atomic<bool> stop{false};
  std::vector<std::string> problems(std::min<size_t>(most_threads, std::max(std::thread::hardware_concurrency(), 1u)));
  std::vector<std::string> codes(problems.size());
  const auto work = [&](size_t thread) {
    try {
      const Gpu::Current current(gpu);
      Sender sender(gpu);
      for (size_t i = next++; i < parts.size() && !stop; i = next++) sender.send(parts[i]);
      sender.finish();
    } catch (const Error& error) {
      codes[thread] = error.code(), problems[thread] = error.message();
      stop = true;
    }
  };
  std::vector<std::thread> threads;
  for (size_t t = 1; t < problems.size(); ++t) threads.emplace_back(work, t);
  work(0);
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < problems.size(); ++t)
    if (!codes[t].empty()) fail_user(codes[t].c_str(), problems[t]);
}

}  // namespace kiln::cuda
