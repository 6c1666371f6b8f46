// A stand-in for CUPTI: it tells of the launches that the driver's stand-in has run, in records as CUPTI's.
// KILN_STAND_IN_NO_CUPTI=1: it refuses, as one does that is too old for the driver.
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "kernel_record.h"

namespace {

using Request = void (*)(uint8_t**, size_t*, size_t*);
using Complete = void (*)(void*, uint32_t, uint8_t*, size_t, size_t);
Request request = nullptr;
Complete complete = nullptr;

template <class F>
F* driver(const char* name) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return library ? reinterpret_cast<F*>(dlsym(library, name)) : nullptr;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT int cuptiActivityRegisterCallbacks(Request r, Complete c) {
  if (std::getenv("KILN_STAND_IN_NO_CUPTI")) return 38;
  request = r, complete = c;
  return 0;
}
EXPORT int cuptiActivityEnable(int kind) {
  auto* const record = driver<void(bool)>("stand_in_record_kernels");
  if (kind != 10 || !record) return 1;
  record(true);
  return 0;
}
EXPORT int cuptiActivityDisable(int) {
  driver<void(bool)>("stand_in_record_kernels")(false);
  return 0;
}
EXPORT int cuptiActivityFlushAll(uint32_t) {
  auto* const take = driver<bool(StandInKernelRecord*)>("stand_in_take_record");
  StandInKernelRecord record;
  while (take(&record)) {
    uint8_t* buffer = nullptr;
    size_t bytes = 0, most = 0;
    request(&buffer, &bytes, &most);
    if (bytes < sizeof record) std::abort();
    std::memcpy(buffer, &record, sizeof record);
    complete(nullptr, 0, buffer, bytes, sizeof record);
  }
  return 0;
}
EXPORT int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, void** record) {
  constexpr int no_more = 12;
  uint8_t* const next = *record ? static_cast<uint8_t*>(*record) + sizeof(StandInKernelRecord) : buffer;
  if (next + sizeof(StandInKernelRecord) > buffer + valid) return no_more;
  *record = next;
  return 0;
}
