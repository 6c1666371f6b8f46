#include "base/side_by_side.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace kiln {

constexpr size_t worth_a_thread = 8;  // parts, of some microseconds at least

void side_by_side(size_t count, const std::function<void(size_t)>& part) {
  std::vector<std::exception_ptr> thrown(count);
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) try {
        part(i);
      } catch (...) {
        thrown[i] = std::current_exception();
      }
  };
  std::vector<std::thread> others;
  const size_t most = std::min<size_t>(count / worth_a_thread + 1, std::max(1u, std::thread::hardware_concurrency()));
  for (size_t i = 1; i < most; ++i) try {
      others.emplace_back(work);
    } catch (const std::system_error&) {
      break;  // no more threads to be had: those that are there do it
    }
  work();
  for (std::thread& other : others) other.join();
  for (const std::exception_ptr& error : thrown)
    if (error) std::rethrow_exception(error);
}

}  // namespace kiln
