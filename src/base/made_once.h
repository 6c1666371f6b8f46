// What is made when it is first asked for and kept for ever, without the guard of a static variable: a child process
// that was forked while another thread was making one would wait for that thread for ever.
#pragma once
#include <atomic>
#include <memory>

namespace kiln {

// `place` is a static variable. Where several come at once each makes one, and all get the same.
template <class T, class Make>
const T& made_once(std::atomic<const T*>& place, const Make& make) {
  if (const T* there = place.load(std::memory_order_acquire)) return *there;
  auto fresh = std::make_unique<const T>(make());
  const T* first = nullptr;
  if (place.compare_exchange_strong(first, fresh.get())) return *fresh.release();
  return *first;
}

}  // namespace kiln
