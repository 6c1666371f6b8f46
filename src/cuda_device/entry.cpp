// libkiln_cuda.so: its one table, through which no exception passes.
#include <cstdio>
#include <string>

#include "base/error.h"
#include "cuda_device/gpu.h"

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
    [](void* device, kiln_device_error* error) -> void* {
      return guarded_call<void*>(error, nullptr, [&] { return new WorkQueue(gpu_of(device)); });
    },
    [](void* queue) { delete static_cast<WorkQueue*>(queue); },
    [](void* queue, const kiln_device_launch* launch, kiln_device_error* error) -> int32_t {
      return guarded_call<int32_t>(error, -1, [&] {
        static_cast<WorkQueue*>(queue)->launch(*launch);
        return 0;
      });
    },
    [](void* queue, void* to, const void* from, size_t bytes, kiln_device_error* error) -> int32_t {
      return guarded_call<int32_t>(error, -1, [&] {
        static_cast<WorkQueue*>(queue)->copy(to, from, bytes);
        return 0;
      });
    },
    [](void* queue, kiln_error_slot* slot, int32_t* step, kiln_device_error* error) -> int32_t {
      return guarded_call<int32_t>(error, -1,
                                   [&] { return static_cast<WorkQueue*>(queue)->synchronise(*slot, *step) ? 0 : 1; });
    },
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const kiln_device_library* kiln_device_entry(void) { return &table; }
