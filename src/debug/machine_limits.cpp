// What this machine can do, measured: the yardstick of the profiler. A second or less in all.
#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "debug/profile.h"

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

// Independent multiply-adds on vectors held in registers, for the widest vectors the processor has.
template <class Vector>
__attribute__((always_inline)) inline float multiply_adds(int64_t rounds) {
  Vector a[12], b = Vector{} + 0.999999f, c = Vector{} + 1e-6f;
  for (int i = 0; i < 12; ++i) a[i] = Vector{} + static_cast<float>(i);
  asm volatile("" : "+x"(b), "+x"(c));  // or the compiler sees that 1 stays 1, and leaves that one out
  for (int64_t r = 0; r < rounds; ++r)
    for (int i = 0; i < 12; ++i) a[i] = a[i] * b + c;
  float sum = 0;
  for (const Vector& v : a) sum += v[0];
  return sum;
}
typedef float Vector4 __attribute__((vector_size(16)));
typedef float Vector8 __attribute__((vector_size(32)));
typedef float Vector16 __attribute__((vector_size(64)));

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

struct Arithmetic {
  float (*run)(int64_t);
  int lanes;
  uint64_t (*read)(const uint64_t*, size_t, size_t);
};
#if defined(__x86_64__)
__attribute__((target("avx512f"), optimize("fp-contract=fast", "O2", "unroll-loops"))) float run_16(int64_t rounds) {
  return multiply_adds<Vector16>(rounds);
}
__attribute__((target("avx2,fma"), optimize("fp-contract=fast", "O2", "unroll-loops"))) float run_8(int64_t rounds) {
  return multiply_adds<Vector8>(rounds);
}
__attribute__((target("avx512f"), optimize("O2"))) uint64_t read_64(const uint64_t* at, size_t words, size_t rounds) {
  return read_all<Words8>(at, words, rounds);
}
__attribute__((target("avx2"), optimize("O2"))) uint64_t read_32(const uint64_t* at, size_t words, size_t rounds) {
  return read_all<Words4>(at, words, rounds);
}
#endif
float run_4(int64_t rounds) { return multiply_adds<Vector4>(rounds); }
uint64_t read_16(const uint64_t* at, size_t words, size_t rounds) { return read_all<Words2>(at, words, rounds); }

Arithmetic widest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {run_16, 16, read_64};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {run_8, 8, read_32};
#endif
  return {run_4, 4, read_16};
}

double measure_gflops(unsigned threads) {
  const Arithmetic arithmetic = widest();
  constexpr int64_t rounds = 1'000'000;
  std::vector<float> results(threads);
  const auto once = [&] { on_all_threads(threads, [&](unsigned t) { results[t] = arithmetic.run(rounds); }); };
  double best = 1e9;
  for (int i = 0; i < 5; ++i) best = std::min(best, seconds_of(once));
  // The sums are used, so that nothing is optimised away.
  const double kept = results[0] == 12345.0f ? 1e-9 : 0;
  return 2.0 * 12 * arithmetic.lanes * static_cast<double>(rounds) * threads / (best + kept) * 1e-9;
}

// `bytes` per thread; what is small is read again and again. The quickest of several tries: others use the machine too.
double measure_gbs(unsigned threads, size_t bytes) {
  const size_t words = bytes / 8, rounds = std::max<size_t>(1, (size_t{16} << 20) / bytes);
  const Arithmetic reading = widest();
  std::vector<std::vector<uint64_t>> memory(threads);
  on_all_threads(threads, [&](unsigned t) { memory[t].assign(words, t); });
  std::vector<uint64_t> sums(threads);
  const auto once = [&] {
    on_all_threads(threads, [&](unsigned t) { sums[t] = reading.read(memory[t].data(), words, rounds); });
  };
  double best = 1e9;
  for (int i = 0; i < 8; ++i) best = std::min(best, seconds_of(once));
  const double kept = sums[0] == 1 ? 1e-9 : 0;
  return static_cast<double>(words * rounds) * 8 * threads / (best + kept) * 1e-9;
}

}  // namespace

MachineLimits measure_machine() {
  const unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  MachineLimits limits{measure_gflops(threads), measure_gbs(threads, size_t{64} << 20), {}};
  for (const size_t bytes :
       {size_t{24} << 10, size_t{768} << 10, size_t{8} << 20})  // within most first, second, third caches
    limits.caches.push_back({static_cast<double>(bytes * threads), measure_gbs(threads, bytes)});
  // A cache is not slower than what is behind it, whatever happened while it was measured.
  double least = limits.gbs;
  for (size_t i = limits.caches.size(); i-- > 0;) least = limits.caches[i].gbs = std::max(least, limits.caches[i].gbs);
  return limits;
}

}  // namespace kiln
