#include "runtime/kept_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
#endif

namespace kiln::runtime {
namespace {

// Up to an eighth more than is asked for, so that outputs which grow a little with each call (a cache of keys and
// values) fit into the same memory for some time. What nobody writes to is no memory yet.
size_t room_for(size_t bytes) {
  const size_t step = std::max(memory_alignment, std::bit_floor(bytes) / 8);
  return (bytes + step - 1) / step * step;
}

std::byte* closed() {
  static std::byte mark;
  return &mark;
}

void give_to_system(std::byte* memory, size_t room) {
  const Allocator system = system_allocator();
  system.release(system.user, memory, room);
}

// What is kept is nobody's: under AddressSanitizer whoever touches it is told, as if it had been freed.
void hide(std::byte* memory, size_t room) {
  std::memcpy(memory, &room, sizeof room);
  ASAN_POISON_MEMORY_REGION(memory, room);
}

size_t show(std::byte* memory) {
  size_t room;
  ASAN_UNPOISON_MEMORY_REGION(memory, sizeof room);
  std::memcpy(&room, memory, sizeof room);
  ASAN_UNPOISON_MEMORY_REGION(memory, room);
  return room;
}

}  // namespace

void* KeptMemory::allocate(void* user, size_t bytes, size_t alignment) {
  auto* self = static_cast<KeptMemory*>(user);
  const size_t room = room_for(bytes);
  std::byte* memory = self->kept_.exchange(nullptr, std::memory_order_acquire);
  if (memory) {
    const size_t has = show(memory);
    if (has != room || reinterpret_cast<uintptr_t>(memory) % alignment != 0) {
      give_to_system(memory, has);  // before the other is asked for: both are never needed at once
      memory = nullptr;
    }
  }
  const Allocator system = system_allocator();
  if (!memory) memory = static_cast<std::byte*>(system.allocate(system.user, room, alignment));
  if (!memory) return nullptr;
  ASAN_POISON_MEMORY_REGION(memory + bytes, room - bytes);
  self->users_.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

void KeptMemory::release(void* user, void* released, size_t bytes) {
  auto* memory = static_cast<std::byte*>(released);
  const size_t room = room_for(bytes);
  ASAN_UNPOISON_MEMORY_REGION(memory, room);
  auto* self = static_cast<KeptMemory*>(user);
  self->keep(memory, room);
  self->leave();
}

void KeptMemory::keep(std::byte* memory, size_t room) {
  hide(memory, room);
  std::byte* nothing = nullptr;
  if (kept_.compare_exchange_strong(nothing, memory, std::memory_order_release, std::memory_order_relaxed)) return;
  show(memory);
  give_to_system(memory, room);
}

void KeptMemory::close() {
  if (std::byte* memory = kept_.exchange(closed(), std::memory_order_acquire)) give_to_system(memory, show(memory));
  leave();
}

void KeptMemory::leave() {
  if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

}  // namespace kiln::runtime
