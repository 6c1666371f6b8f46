// libkiln_cuda.so: its one table, through which no exception passes.
#include <cstdio>
#include <string>

#include "base/error.h"
#include "cuda_device/queue.h"
#include "cuda_device/upload.h"

namespace {
using namespace kiln;
using namespace kiln::cuda;

void fill_error(kiln_device_error* error, const char* code, const char* text) {
  if (!error) return;
  std::snprintf(error->code, sizeof error->code, "%s", code);
  std::snprintf(error->text, sizeof error->text, "%s", text);
}

// What the work gives, or `failed` with the error written down.
template <class T, class Work>
T guarded_call(kiln_device_error* error, T failed, Work work) noexcept {
  try {
    return work();
  } catch (const Error& thrown) {
    fill_error(error, thrown.code().c_str(), thrown.message().c_str());
  } catch (const std::exception& thrown) {
    fill_error(error, "K0776", thrown.what());
  }
  return failed;
}

Gpu& gpu_of(void* device) { return *static_cast<Gpu*>(device); }
WorkQueue& queue_of(void* queue) { return *static_cast<WorkQueue*>(queue); }

template <class Work>
int32_t done(kiln_device_error* error, Work work) noexcept {
  return guarded_call<int32_t>(error, -1, [&] { return work(), 0; });
}

const kiln_device_library table = {
    KILN_DEVICE_LIBRARY_VERSION,
    [](int32_t index, kiln_device_error* error) -> void* {
      return guarded_call<void*>(error, nullptr, [&] { return &Gpu::get(index); });
    },
    [](void* device) -> int32_t { return gpu_of(device).index(); },
    [](void* device, const char* const* targets, size_t count, kiln_device_error* error) -> int64_t {
      return guarded_call<int64_t>(error, -1, [&] {
        return static_cast<int64_t>(gpu_of(device).choose(std::vector<std::string>(targets, targets + count)));
      });
    },
    [](void* device, size_t bytes, size_t) -> void* {
      return guarded_call<void*>(nullptr, nullptr, [&] { return gpu_of(device).allocate(bytes); });
    },
    [](void* device, void* memory, size_t bytes) {
      guarded_call<int>(nullptr, -1, [&] {
        gpu_of(device).release(memory, bytes);
        return 0;
      });
    },
    [](void* device, void* to, const void* from, size_t bytes, int32_t direction, kiln_device_error* error) -> int32_t {
      return guarded_call<int32_t>(error, -1, [&] {
        gpu_of(device).copy(to, from, bytes, direction);
        return 0;
      });
    },
    [](void* device, const void* bytes, size_t size, kiln_device_error* error) -> void* {
      return guarded_call<void*>(error, nullptr, [&] {
        return new Code(gpu_of(device), {static_cast<const char*>(bytes), size});
      });
    },
    [](void* code) { delete static_cast<Code*>(code); },
    [](const void* code) { return static_cast<const Code*>(code)->table(); },
    [](const void* code, const char* name) -> const void* {
      return guarded_call<const void*>(nullptr, nullptr, [&] { return static_cast<const Code*>(code)->kernel(name); });
    },
    [](void* device, uint32_t flags, kiln_device_error* error) -> void* {
      return guarded_call<void*>(error, nullptr, [&] { return new WorkQueue(gpu_of(device), flags); });
    },
    [](void* queue) { delete static_cast<WorkQueue*>(queue); },
    [](void* queue, const kiln_device_launch* launch, kiln_device_error* error) -> int32_t {
      return guarded_call<int32_t>(error, -1, [&] {
        queue_of(queue).launch(*launch);
        return 0;
      });
    },
    [](void* queue, void* to, const void* from, size_t bytes, kiln_device_error* error) -> int32_t {
      return guarded_call<int32_t>(error, -1, [&] {
        queue_of(queue).copy(to, from, bytes);
        return 0;
      });
    },
    [](void* queue, kiln_error_slot* slot, int32_t* step, kiln_device_error* error) -> int32_t {
      return guarded_call<int32_t>(error, -1, [&] { return queue_of(queue).synchronise(*slot, *step) ? 0 : 1; });
    },
    [](void* device, const kiln_device_upload* pieces, size_t count, kiln_device_error* error) -> int32_t {
      return done(error, [&] { upload(gpu_of(device), pieces, count); });
    },
    [](void* device, kiln_device_error* error) -> int32_t { return done(error, [&] { gpu_of(device).settle(); }); },
    [](void* device, kiln_device_facts* out) { *out = gpu_of(device).facts(); },
    [](void* queue, void* stream, kiln_error_slot* slot, int32_t* step, kiln_device_error* error) -> int32_t {
      return guarded_call<int32_t>(error, -1, [&] { return queue_of(queue).start(stream, *slot, *step) ? 0 : 1; });
    },
    [](void* queue, kiln_device_error* error) -> int32_t { return done(error, [&] { queue_of(queue).finish(); }); },
    [](void* queue, uint64_t key, void* const* addresses, size_t count, uint64_t seed,
       kiln_device_error* error) -> int32_t {
      return guarded_call<int32_t>(error, -1,
                                   [&] { return queue_of(queue).begin_stretch(key, addresses, count, seed) ? 1 : 0; });
    },
    [](void* queue, kiln_device_error* error) -> int32_t {
      return done(error, [&] { queue_of(queue).end_stretch(); });
    },
    [](void* queue, int32_t end, kiln_device_error* error) -> int32_t {
      return done(error, [&] { queue_of(queue).mark(end != 0); });
    },
    [](void* queue, kiln_device_error* error) -> double {
      return guarded_call<double>(error, -1, [&] { return queue_of(queue).seconds(); });
    },
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const kiln_device_library* kiln_device_entry(void) { return &table; }
