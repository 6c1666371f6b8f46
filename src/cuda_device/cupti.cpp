#include "cuda_device/cupti.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/environment.h"

namespace kiln::cuda {
namespace {

constexpr int kernels = 10;        // CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
constexpr unsigned all_of_it = 1;  // CUPTI_ACTIVITY_FLAG_FLUSH_FORCED
constexpr size_t buffer_bytes = 64 << 10;

// The head of CUpti_ActivityKernel4 (CUDA 9) to …10 (CUDA 13), in which these lie at the same places.
struct KernelRecord {
  uint32_t kind;
  uint8_t configuration[12];
  uint64_t start, end;  // nanoseconds
  uint8_t launch[72];
  const char* name;
};
static_assert(offsetof(KernelRecord, start) == 16 && offsetof(KernelRecord, name) == 104);

Cupti* opened = nullptr;

}  // namespace

Cupti* Cupti::get() {
  static Cupti* const found = [] {
    for (const char* loaded : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"})
      if (void* theirs = dlopen(loaded, RTLD_NOW | RTLD_NOLOAD)) {
        dlclose(theirs);
        return static_cast<Cupti*>(nullptr);
      }
    static Cupti cupti;
    for (const std::string& path : cuda_library_places("cupti", "cuda_cupti"))
      if (cupti.open(path)) return &cupti;
    return static_cast<Cupti*>(nullptr);
  }();
  return found;
}

const char* Cupti::clock() {
  const Cupti* const cupti = get();
  return !cupti ? "CUDA events" : cupti->missed_ ? "CUPTI, and CUDA events where it had nothing" : "CUPTI";
}

bool Cupti::open(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return false;
  bool all = true;
  const auto bind = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    all = all && function;
  };
  bind(register_callbacks_, "cuptiActivityRegisterCallbacks");
  bind(enable_, "cuptiActivityEnable");
  bind(disable_, "cuptiActivityDisable");
  bind(flush_, "cuptiActivityFlushAll");
  bind(next_record_, "cuptiActivityGetNextRecord");
  opened = this;
  if (all && register_callbacks_(give_buffer, take_buffer) == 0 && enable_(kernels) == 0) return awake_ = true;
  opened = nullptr;
  dlclose(library);
  return false;
}

void Cupti::wake() {
  if (!awake_) awake_ = enable_(kernels) == 0;
}

void Cupti::rest() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !awake_) return;  // somebody is being timed
  disable_(kernels);
  awake_ = false;
}

double Cupti::seconds_of(const std::vector<std::string>& names) {
  flush_(all_of_it);
  std::lock_guard lock(records_mutex_);
  double seconds = 0;
  bool all = true;
  for (const std::string& name : names) {
    bool found = false;
    for (size_t i = 0; i < records_.size() && !found; ++i) {
      if (records_[i].name != name) continue;
      seconds += records_[i].seconds;
      records_.erase(records_.begin() + static_cast<ptrdiff_t>(i));
      found = true;
    }
    all = all && found;
  }
  records_.clear();
  missed_ = missed_ || !all;
  return all ? seconds : -1;
}

void Cupti::give_buffer(unsigned char** buffer, size_t* bytes, size_t* most_records) {
  *buffer = static_cast<unsigned char*>(std::malloc(buffer_bytes));
  *bytes = *buffer ? buffer_bytes : 0;
  *most_records = 0;  // as many as it holds
}

void Cupti::take_buffer(void*, unsigned, unsigned char* buffer, size_t, size_t valid) {
  void* at = nullptr;
  while (valid > 0 && opened && opened->next_record_(buffer, valid, &at) == 0) {
    KernelRecord record;
    std::memcpy(&record, at, sizeof record);
    if (record.kind != kernels || !record.name || record.end < record.start) continue;
    std::lock_guard lock(opened->records_mutex_);
    opened->records_.push_back({record.name, static_cast<double>(record.end - record.start) * 1e-9});
  }
  std::free(buffer);
}

}  // namespace kiln::cuda
