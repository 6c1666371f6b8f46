#include "debug/machine_limits.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <thread>

#include "debug/machine_arithmetic.h"

namespace kiln {
namespace {

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void on_all_threads(unsigned threads, const std::function<void(unsigned)>& work) {
  std::vector<std::thread> pool;
  for (unsigned t = 1; t < threads; ++t) pool.emplace_back(work, t);
  work(0);
  for (std::thread& thread : pool) thread.join();
}

// Adds up memory by whole vectors.
template <class Vector>
__attribute__((always_inline)) inline uint64_t read_all(const uint64_t* at, size_t words, size_t rounds) {
  Vector sums[8] = {};
  constexpr size_t lanes = sizeof(Vector) / sizeof(uint64_t);
  for (size_t r = 0; r < rounds; ++r) {
    asm volatile("" ::: "memory");  // each round reads anew
    for (size_t i = 0; i + 8 * lanes <= words; i += 8 * lanes)
      for (size_t k = 0; k < 8; ++k) sums[k] += *reinterpret_cast<const Vector*>(at + i + k * lanes);
  }
  for (const Vector& sum : sums) sums[0] += sum;
  return sums[0][0];
}
typedef uint64_t Words2 __attribute__((vector_size(16), aligned(8), may_alias));
typedef uint64_t Words4 __attribute__((vector_size(32), aligned(8), may_alias));
typedef uint64_t Words8 __attribute__((vector_size(64), aligned(8), may_alias));

using Read = uint64_t (*)(const uint64_t* at, size_t words, size_t rounds);
#if defined(__x86_64__)
__attribute__((target("avx512f"), optimize("O2"))) uint64_t read_64(const uint64_t* at, size_t words, size_t rounds) {
  return read_all<Words8>(at, words, rounds);
}
__attribute__((target("avx2"), optimize("O2"))) uint64_t read_32(const uint64_t* at, size_t words, size_t rounds) {
  return read_all<Words4>(at, words, rounds);
}
#endif
uint64_t read_16(const uint64_t* at, size_t words, size_t rounds) { return read_all<Words2>(at, words, rounds); }

Read widest_read() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return read_64;
  if (__builtin_cpu_supports("avx2")) return read_32;
#endif
  return read_16;
}

// 0: the machine has no such instructions.
double measure_gflops(unsigned threads, Arithmetic arithmetic) {
  const std::optional<BusyArithmetic> busy = busy_arithmetic(arithmetic);
  if (!busy) return 0;
  // By the time that each thread had a processor, and the best of many short tries: others use the machine too.
  constexpr double seconds_of_a_try = 2e-3;
  constexpr int tries = 25;
  std::vector<float> results(threads);
  std::vector<double> rates(threads);
  int64_t rounds = 1000;
  const auto timed = [&](unsigned t) {
    const double begin = processor_seconds();
    results[t] = busy->run(rounds);
    return processor_seconds() - begin;
  };
  while (timed(0) < seconds_of_a_try / 2) rounds *= 2;
  double best = 0;
  for (int i = 0; i < tries; ++i) {
    on_all_threads(threads, [&](unsigned t) { rates[t] = static_cast<double>(rounds) / timed(t); });
    best = std::max(best, std::accumulate(rates.begin(), rates.end(), 0.0));
  }
  // The sums are used, so that nothing is optimised away.
  const double kept = results[0] == 12345.0f ? 1e-9 : 0;
  return busy->flops * (best + kept) * 1e-9;
}

// `bytes` per thread; what is small is read again and again. The quickest of several tries: others use the machine too.
double measure_gbs(unsigned threads, size_t bytes) {
  const size_t words = bytes / 8, rounds = std::max<size_t>(1, (size_t{16} << 20) / bytes);
  const Read read = widest_read();
  std::vector<std::vector<uint64_t>> memory(threads);
  on_all_threads(threads, [&](unsigned t) { memory[t].assign(words, t); });
  std::vector<uint64_t> sums(threads);
  const auto once = [&] {
    on_all_threads(threads, [&](unsigned t) { sums[t] = read(memory[t].data(), words, rounds); });
  };
  double best = 1e9;
  for (int i = 0; i < 8; ++i) best = std::min(best, seconds_of(once));
  const double kept = sums[0] == 1 ? 1e-9 : 0;
  return static_cast<double>(words * rounds) * 8 * threads / (best + kept) * 1e-9;
}

}  // namespace

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

MachineLimits measure_machine(int asked) {
  const unsigned processors = std::max(1u, std::thread::hardware_concurrency());
  const unsigned threads = std::min(processors, static_cast<unsigned>(std::max(1, asked)));
  MachineLimits limits;
  limits.gflops = measure_gflops(threads, Arithmetic::single_terms);
  limits.pair_gflops = measure_gflops(threads, Arithmetic::bf16_pairs);
  limits.tile_gflops = measure_gflops(threads, Arithmetic::bf16_tiles);
  limits.byte_gops = measure_gflops(threads, Arithmetic::byte_quads);
  limits.gbs = measure_gbs(threads, size_t{64} << 20);
  for (const size_t bytes :
       {size_t{24} << 10, size_t{768} << 10, size_t{8} << 20})  // within most first, second, third caches
    limits.caches.push_back({static_cast<double>(bytes * threads), measure_gbs(threads, bytes)});
  // A cache is not slower than what is behind it, whatever happened while it was measured.
  double least = limits.gbs;
  for (size_t i = limits.caches.size(); i-- > 0;) least = limits.caches[i].gbs = std::max(least, limits.caches[i].gbs);
  return limits;
}

MachineLimits measure_machine() { return measure_machine(static_cast<int>(std::thread::hardware_concurrency())); }

double MachineLimits::gbs_for(double bytes) const {
  for (const Level& level : caches)
    if (bytes <= level.bytes) return level.gbs;
  return gbs;
}

double MachineLimits::gflops_for(Arithmetic arithmetic) const {
  const double own = arithmetic == Arithmetic::bf16_pairs   ? pair_gflops
                     : arithmetic == Arithmetic::bf16_tiles ? tile_gflops
                     : arithmetic == Arithmetic::byte_quads ? byte_gops
                                                            : gflops;
  return own > 0 ? own : gflops;
}

}  // namespace kiln
